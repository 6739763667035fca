"""The scheduling key: waiting sessions with the same key are alike to the lease round.

The sessions with one key in one queue form a line: if one of them does not fit, none does. The key
is a hash of all that decides where a session may run: its resources, its pods, the node rules in
its pod specification, what it avoids, and whether it is a retry (retries have a share of their
own). PostgreSQL computes it wherever a session is written, so that there is only one algorithm.
"""

_RULES = ("nodeSelector", "tolerations", "affinity,nodeAffinity")


def scheduling_key_sql(
    *,
    resources: str,
    pods: str,
    pod_spec: str,
    retry: str,
    avoid_node: str = "''",
    avoid_node_of: str = "''",
    avoid_executors: str = "'[]'::jsonb",
    executor_labels: str = "",
) -> str:
    """Return the key as an SQL expression over others; JSON is `jsonb`.

    `avoid_node_of` is the executor whose node is avoided. `executor_labels` is null for most; "" if
    it is null for all.
    """
    rules = [f"{pod_spec} #> '{{{prefix}{path}}}'" for prefix in ("", "spec,") for path in _RULES]
    parts = [resources, pods, *rules, avoid_node, avoid_node_of, avoid_executors, retry]
    # Without labels the key is as it was before there were any.
    labels = f" || coalesce(({executor_labels})::text, '')" if executor_labels else ""
    return f"hashtextextended(jsonb_build_array({', '.join(parts)})::text{labels}, 0)"
