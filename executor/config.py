"""The agent's command line."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from base.loglines.lines import wanted_format
from base.podspec.extended import AUTO, MODES
from base.podspec.node_templates import NodeTemplate
from base.podspec.pod_defaults import default_problem, own_refused
from base.podspec.pod_security import LEVELS, RESTRICTED
from base.podspec.specification import REFUSED, refused_paths
from base.variables.options import option
from base.variables.reading import misspelt, read
from executor import option_values as values
from executor.drivers.kubernetes.pod_names import NAMESPACE_TEMPLATE
from executor.environment import MODE, USERS, Agent

SIMULATED = find_spec("executor.drivers.simulated") is not None
"""Whether simulated clusters are here; they are no part of the wheel."""
DRIVERS = ("local", *(["simulated"] if SIMULATED else []), "kubernetes")
TOKEN_VARIABLE = "REPRISE_EXECUTOR_TOKEN"  # noqa: S105  # the variable's name, not a token
ANY_PARENT = 0


@dataclass(frozen=True)
class Simulation:
    """The options of the simulated driver.

    A `speed` of 0 means no waiting at all. `script` has the form that
    `executor/drivers/simulated/script.py` describes. `run_log` gets a line at the beginning and at
    the end of each run.
    """

    seed: int
    nodes: int
    speed: float
    script: Path | None
    run_log: Path | None


@dataclass(frozen=True)
class Isolating:
    """The isolation options of the local driver.

    `readable` and `writable` are the paths that a run may use in addition to the usual ones.
    `users` are the user ids of runs if the agent is root.
    """

    mode: str
    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    users: range


@dataclass(frozen=True)
class Pods:
    """The options of the Kubernetes driver, passed on to `PodSettings`.

    `allowed` and `refused` change which fields a `pod_spec` may have. `security` is one of
    `base.podspec.pod_security.LEVELS`. `defaults` are what pods get where sessions say nothing.
    `extended_tolerations` is one of `base.podspec.extended.MODES`. `priority_classes` are names of
    PriorityClasses of the cluster, by priority class.
    """

    kubeconfig: Path | None
    context: str | None
    in_cluster: bool
    namespaces: str
    create_namespaces: bool
    allowed: tuple[str, ...]
    refused: tuple[str, ...]
    security: str
    defaults: Mapping[str, Any]
    extended_tolerations: str
    unconfirmed_after: float
    relist_seconds: float
    watch_seconds: float
    answer_seconds: float
    priority_classes: Mapping[str, str]


@dataclass(frozen=True)
class Config:
    """All options of the agent.

    `node_templates` are the nodes that the cluster can add. `parent` is the process that the agent
    ends with: None for no process, `ANY_PARENT` for any parent. With `check` the agent only finds
    out whether runs can be isolated as asked, and ends. Other drivers have no `simulation`.
    """

    name: str
    url: str
    token: str
    token_file: Path | None
    state_dir: Path
    driver: str
    max_sessions: int
    node_templates: list[NodeTemplate]
    parent: int | None
    check: bool
    isolating: Isolating
    simulation: Simulation | None
    pods: Pods
    log_format: str
    log_level: str


def parse(argv: Sequence[str], environ: Mapping[str, str]) -> Config:
    """Return what the command line and the environment say.

    If something is wrong, exit with status 2 and say what, as argparse does.
    """
    parser = _parser()
    given = parser.parse_args(argv)
    environment = _environment(parser, environ)
    try:
        token = "" if given.check_isolation else _token(given.token_file, environment)
    except OSError as error:
        parser.error(f"cannot read the token: {error}")
    if not token and not given.check_isolation:
        parser.error(f"no token: give --token-file or set {TOKEN_VARIABLE}")
    return Config(
        name=given.name,
        url=given.url,
        token=token,
        token_file=given.token_file,
        state_dir=given.state_dir.absolute(),
        driver=given.driver,
        max_sessions=given.max_sessions,
        node_templates=given.node_templates,
        parent=given.die_with_parent,
        check=given.check_isolation,
        isolating=Isolating(
            given.isolate_runs or environment.isolate_runs,
            tuple(each.absolute() for each in environment.local_paths),
            tuple(each.absolute() for each in environment.local_writable),
            given.run_users or environment.run_users,
        ),
        simulation=_simulation(given) if given.driver == "simulated" else None,
        pods=_pods(parser, given),
        log_format=wanted_format(environment.log_format, production=environment.production),
        log_level=environment.log_level,
    )


def _environment(parser: argparse.ArgumentParser, environ: Mapping[str, str]) -> Agent:
    environment, wrong = read(Agent, environ)
    if wrong:
        parser.exit(2, "".join(f"{line}\n" for line in wrong))
    for line in misspelt(Agent, environ):
        sys.stderr.write(f"{line}\n")
    return environment


def _simulation(given: argparse.Namespace) -> Simulation:
    return Simulation(given.seed, given.nodes, given.speed, given.script, given.run_log)


def _pods(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Pods:
    classes = dict(given.priority_class)
    if len(classes) < len(given.priority_class):
        parser.error("argument --priority-class: each class may be given once")
    # What `--refuse` adds is refused to sessions: the executor's own defaults may have it.
    refused = own_refused(refused_paths(given.allow))
    if wrong := default_problem(given.pod_defaults, refused):
        parser.error(f"argument --pod-defaults: {wrong}")
    return Pods(
        kubeconfig=given.kubeconfig,
        context=given.context,
        in_cluster=given.in_cluster,
        namespaces=given.namespace_template,
        create_namespaces=given.create_namespaces,
        allowed=tuple(given.allow),
        refused=tuple(given.refuse),
        security=given.pod_security,
        defaults=given.pod_defaults,
        extended_tolerations=given.assume_extended_resource_tolerations,
        unconfirmed_after=given.unconfirmed_after,
        relist_seconds=given.relist_seconds,
        watch_seconds=given.watch_seconds,
        answer_seconds=given.answer_seconds,
        priority_classes=classes,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reprise-executor",
        description="Takes sessions from a Reprise server and runs them here.",
    )
    parser.add_argument("--name", required=True, help="name of the executor on the server")
    parser.add_argument(
        "--url", required=True, help="URL of the server, such as http://127.0.0.1:8000"
    )
    parser.add_argument(
        "--token-file", type=Path, help=f"file with the token (else ${TOKEN_VARIABLE})"
    )
    parser.add_argument(
        "--state-dir",
        type=Path,
        required=True,
        help="directory for data that must survive a restart",
    )
    parser.add_argument(
        "--driver", choices=DRIVERS, default="local", help="driver that runs the sessions"
    )
    _add_limits(parser)
    parser.add_argument(
        "--die-with-parent",
        nargs="?",
        type=values.positive,
        const=ANY_PARENT,
        metavar="PID",
        help="stop when the parent process (PID, if given) is gone",
    )
    _add_isolation(parser)
    if SIMULATED:
        _add_simulation(parser)
    _add_pods(parser)
    return parser


def _add_limits(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--max-sessions",
        type=values.positive,
        default=8,
        help="maximum number of sessions at the same time (default 8)",
    )
    parser.add_argument(
        "--node-templates",
        type=values.templates,
        default=[],
        metavar="FILE",
        help="JSON file with the nodes that the cluster's autoscaler can add (default: none)",
    )


def _add_isolation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "the local driver, which runs processes of this machine",
        "REPRISE_LOCAL_PATHS lists what isolated runs may read besides the system's programs,"
        " REPRISE_LOCAL_WRITABLE what they may write. Both have the form of PATH.",
    )
    group.add_argument(
        "--isolate-runs",
        type=option(MODE),
        metavar="{on,partly,off}",
        help="isolate runs from the agent, from each other and from this machine's files; partly:"
        " as far as the kernel can; off: runs are processes of the agent's own user (default"
        " $REPRISE_ISOLATE_RUNS, else on)",
    )
    group.add_argument(
        "--run-users",
        type=option(USERS),
        metavar="FIRST-LAST",
        help="user ids for isolated runs if the agent is root (default $REPRISE_RUN_USERS, else"
        " 70000-79999)",
    )
    group.add_argument(
        "--check-isolation",
        action="store_true",
        help="check whether runs can be isolated, and exit",
    )


def _add_simulation(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the simulated driver, which runs nothing")
    group.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default 0)")
    group.add_argument(
        "--nodes",
        type=values.positive,
        default=10,
        help="number of nodes of the virtual cluster (default 10)",
    )
    group.add_argument(
        "--speed",
        type=values.non_negative,
        default=1.0,
        help="speed of time compared with real time; 0: as fast as possible (default 1)",
    )
    group.add_argument(
        "--script", type=Path, help="JSON file with the durations, failure rates and causes of runs"
    )
    group.add_argument(
        "--run-log", type=Path, help="file to which the start and the end of each run are written"
    )


def _add_pods(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the Kubernetes driver, which runs pods")
    where = group.add_mutually_exclusive_group()
    where.add_argument(
        "--kubeconfig",
        type=Path,
        help="kubeconfig file (default: $KUBECONFIG, else ~/.kube/config)",
    )
    where.add_argument(
        "--in-cluster",
        action="store_true",
        help="use the service account of the executor's own pod",
    )
    group.add_argument("--context", help="context of the kubeconfig (default: its current one)")
    group.add_argument(
        "--namespace-template",
        type=values.template,
        default=NAMESPACE_TEMPLATE,
        help=f"template of a project's namespace (default {NAMESPACE_TEMPLATE})",
    )
    group.add_argument("--create-namespaces", action="store_true", help="create missing namespaces")
    _add_pod_rules(group)
    _add_pod_times(group)


def _add_pod_rules(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--allow", action="append", default=[], metavar="PATH", choices=REFUSED,
        help="pod_spec field that is allowed here although it is refused by default; repeatable",
    )  # fmt: skip
    group.add_argument(
        "--refuse", action="append", default=[], metavar="PATH",
        help="additional pod_spec field to refuse; repeatable",
    )  # fmt: skip
    group.add_argument(
        "--pod-security", choices=LEVELS, default=RESTRICTED,
        help="security context of pods where a session has not said its own; restricted: as the Pod"
        " Security Standard of this name demands; off: none (default restricted)",
    )  # fmt: skip
    group.add_argument(
        "--pod-defaults", type=values.document, default={}, metavar="FILE",
        help="YAML or JSON file with what pods get where a session says nothing: tolerations, node"
        " selector, affinity, security context, and others (default: none)",
    )  # fmt: skip
    group.add_argument(
        "--assume-extended-resource-tolerations", choices=MODES, default=AUTO,
        help="whether the cluster adds tolerations for the extended resources that a pod asks for;"
        " auto: a dry run shows it (default auto)",
    )  # fmt: skip
    group.add_argument(
        "--priority-class", action="append", default=[], metavar="CLASS=NAME",
        type=values.priority_class,
        help="PriorityClass of the cluster that the pods of a priority class get; its"
        " preemptionPolicy must be Never; repeatable",
    )  # fmt: skip


def _add_pod_times(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--unconfirmed-after",
        type=values.non_negative,
        default=600.0,
        help="seconds after the grace period until a deleted pod counts as ended although it still"
        " exists; 0: never (default 600)",
    )
    group.add_argument(
        "--relist-seconds",
        type=values.seconds,
        default=60.0,
        help="seconds between two full lists of the pods (default 60)",
    )
    group.add_argument(
        "--watch-seconds",
        type=values.seconds,
        default=240.0,
        help="seconds that a watch lasts (default 240)",
    )
    group.add_argument(
        "--answer-seconds",
        type=values.seconds,
        default=30.0,
        help="seconds to wait for an answer of the cluster (default 30)",
    )


def _token(path: Path | None, environment: Agent) -> str:
    if path is None:
        return environment.executor_token.strip()
    return path.read_text("utf-8").strip()
