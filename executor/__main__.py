"""`reprise-executor`, also `python -m executor`."""

import gc
import logging
import os
import signal
import sys
import threading
from random import Random
from types import FrameType

from reprise_client.errors import ConfigError
from reprise_client.transport import Transport
from reprise_client.wire import Wire

from base.loglines import lines
from base.podspec.pod_defaults import placing_of
from base.podspec.specification import refused_paths
from executor import descriptors
from executor.agent.loop import Agent
from executor.config import ANY_PARENT, Config, Simulation, parse
from executor.connection import Connection, call_id
from executor.drivers.local.driver import LocalDriver
from executor.drivers.local.isolation import IsolationError, isolation
from executor.drivers.local.spawn import die_with_parent
from executor.drivers.protocol import Driver
from executor.inbox import StopAsked
from executor.leases import Limits
from executor.reports import ReportBuffer
from executor.run_lines import run_lines
from executor.runs import BareRuns, RunStore
from executor.state import StateDir, StateDirTakenError

log = logging.getLogger("executor")

EXIT_UNUSABLE = 1
EXIT_KILLED = 130
EXIT_BROKEN = 70


def main() -> None:
    config = parse(sys.argv[1:], os.environ)
    _set_up_log(config)
    log.debug("limit of open files: %d", descriptors.raise_limit())
    try:
        if config.parent is not None:
            _follow_parent(config.parent)
        status = _check(config) if config.check else _run(config)
    except (StateDirTakenError, ParentGoneError, ConfigError, IsolationError) as refusal:
        log.error("%s", refusal)
        status = EXIT_UNUSABLE
    except OSError as error:
        log.error("the agent ends: %s", error)
        status = EXIT_UNUSABLE
    logging.shutdown()
    # Threads may still wait for the server. None of them has anything left to finish.
    os._exit(status)


def _set_up_log(config: Config) -> None:
    lines.configure(lines.configuration(config.log_format, config.log_level, httpx="WARNING"))
    for handler in logging.getLogger().handlers:
        handler.addFilter(run_lines)
    threading.excepthook = _thread_died


class ParentGoneError(Exception):
    """The parent process is gone, and this process was started to end with it."""


def _check(config: Config) -> int:
    """Check whether runs can be isolated and return the exit status.

    The refusal is printed as plain text, whatever the log format: a person asked for it.
    """
    try:
        isolation(config.isolating, config.state_dir, config.token_file)
    except IsolationError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return EXIT_UNUSABLE
    return 0


def _run(config: Config) -> int:
    state = StateDir(config.state_dir)
    driver, wire = _driver_and_wire(config)
    buffer = ReportBuffer(state.reports)
    agent = Agent(
        store=RunStore(state.runs) if driver.keeps_files else BareRuns(buffer.leases),
        buffer=buffer,
        connection=Connection(wire, state),
        driver=driver,
        limits=_limits(config),
        state=state,
    )
    _stop_on_signals(agent, driver)
    _collect_rarely()
    log.info("executor %s at %s, state in %s", config.name, config.url, config.state_dir)
    return agent.run()


def _limits(config: Config) -> Limits:
    defaults = config.pods.defaults if config.driver == "kubernetes" else {}
    return Limits(config.max_sessions, config.node_templates, placing_of(defaults))


def _collect_rarely() -> None:
    """Exempt what is loaded from garbage collection, and make collections rare.

    Runs and reports are no cycles: they go when nobody needs them any more. With Python's own 700
    the agent would spend a tenth of its time in looking for garbage among them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000)


def _driver_and_wire(config: Config) -> tuple[Driver, Wire]:
    transport = Transport(config.url, config.token, request_id=call_id)
    if config.simulation is not None:
        return _simulated_driver_and_wire(config, config.simulation, transport)
    if config.driver == "kubernetes":
        return _kubernetes_driver(config), Wire(transport, config.name)
    isolated = isolation(config.isolating, config.state_dir, config.token_file)
    return LocalDriver(isolated), Wire(transport, config.name)


def _simulated_driver_and_wire(
    config: Config, asked: Simulation, transport: Transport
) -> tuple[Driver, Wire]:
    # The wheel is without these.
    from executor.drivers.simulated.driver import SimulatedDriver  # noqa: PLC0415
    from executor.drivers.simulated.run_log import RunLog  # noqa: PLC0415
    from executor.drivers.simulated.script import Script  # noqa: PLC0415
    from executor.drivers.simulated.unreliable import UnreliableWire  # noqa: PLC0415

    # A line for each of thousands of runs a second would cost more than the run.
    for name in ("executor.agent", "executor.sender"):
        logging.getLogger(name).setLevel(logging.WARNING)
    script = Script.load(asked.script)
    run_log = RunLog(asked.run_log) if asked.run_log else None
    driver = SimulatedDriver(
        script,
        seed=asked.seed,
        nodes=asked.nodes,
        speed=asked.speed,
        run_log=run_log,
        templates=config.node_templates,
    )
    if not script.troubles_reports:
        return driver, Wire(transport, config.name)
    random = Random(asked.seed)  # noqa: S311  # repeatable on purpose
    on_trouble = run_log.trouble if run_log else log.info
    return driver, UnreliableWire(
        transport, config.name, script=script, random=random, on_trouble=on_trouble
    )


def _kubernetes_driver(config: Config) -> Driver:
    # These imports would cost every other executor a second and 40 MB.
    from executor.drivers.kubernetes.access import Access  # noqa: PLC0415
    from executor.drivers.kubernetes.driver import KubernetesDriver  # noqa: PLC0415
    from executor.drivers.kubernetes.pod_settings import PodSettings  # noqa: PLC0415

    asked = config.pods
    settings = PodSettings(
        executor=config.name,
        access=Access(asked.kubeconfig, asked.context, asked.in_cluster),
        namespaces=asked.namespaces,
        refused=refused_paths(asked.allowed, asked.refused),
        security=asked.security,
        defaults=asked.defaults,
        extended_tolerations=asked.extended_tolerations,
        create_namespaces=asked.create_namespaces,
        unconfirmed_after=asked.unconfirmed_after,
        relist_seconds=asked.relist_seconds,
        watch_seconds=asked.watch_seconds,
        answer_seconds=asked.answer_seconds,
        priority_classes=asked.priority_classes,
    )
    return KubernetesDriver(settings)


def _stop_on_signals(agent: Agent, driver: Driver) -> None:
    """The first signal stops in order, the second at once."""
    asked = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        if asked.is_set():
            driver.close()
            os._exit(EXIT_KILLED)
        asked.set()
        agent.inbox.post(StopAsked())

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _follow_parent(expected: int) -> None:
    """Ask the kernel for SIGTERM when the parent dies.

    It is not SIGKILL, because only a living agent can end what its runs have started. Raises
    `ParentGoneError` if the parent is gone already.
    """
    before = os.getppid()
    die_with_parent(signal.SIGTERM)
    if os.getppid() != before or expected not in {ANY_PARENT, before}:
        raise ParentGoneError("the parent process is gone")


def _thread_died(failure: threading.ExceptHookArgs) -> None:
    """Log the dead thread and end the process.

    An agent that lacks one of its threads would hold leases that it cannot serve.
    """
    name = failure.thread.name if failure.thread else "?"
    details = (failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)
    log.critical("thread %s died", name, exc_info=details)
    os._exit(EXIT_BROKEN)


if __name__ == "__main__":
    main()
