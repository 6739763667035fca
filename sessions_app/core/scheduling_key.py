"""The key that waiting sessions share which are alike to the lease round.

Sessions with one key in one queue are a line: if one of them does not fit, none does. The key is
a hash of all that decides where a session may run: its resources, its pods, the rules about nodes
in its pod specification, what it avoids, and whether it is a retry, which has a share of its own.
PostgreSQL makes it wherever a session is written, so that there is one way to make it.
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
) -> str:
    """The key as an SQL expression over other ones; JSON is `jsonb`.

    `avoid_node_of` is the executor whose node is avoided.
    """
    rules = [f"{pod_spec} #> '{{{prefix}{path}}}'" for prefix in ("", "spec,") for path in _RULES]
    parts = [resources, pods, *rules, avoid_node, avoid_node_of, avoid_executors, retry]
    return f"hashtextextended(jsonb_build_array({', '.join(parts)})::text, 0)"
