"""Starts runs whose acceptance the server has answered."""

import logging

from reprise_client.wire import Lease

from executor.agent.lifecycle import FENCED, Ending, Phase, Run
from executor.agent.offers import Offers
from executor.agent.run_table import RunTable
from executor.drivers.protocol import Driver, Order, facts
from executor.output import Pump

log = logging.getLogger(__name__)


class RunStarter:
    """All calls are on the main thread."""

    def __init__(self, table: RunTable, driver: Driver, pump: Pump, offers: Offers):
        self._table = table
        self._driver = driver
        self._pump = pump
        self._offers = offers

    def start(self, run: Run) -> None:
        """Let the driver start a run, unless it was to end before."""
        if run.ending in FENCED:
            self._offers.give_back(run, run.ending.value)
            return
        run.phase = Phase.LIVE
        self._pump.follow(run.files)
        if run.ending is not None or run.lease is None:
            ending = run.ending or Ending.LEASE_EXPIRED
            self._table.end_unseen([(run, facts(None))], ending, "ended before it was started")
            self._pump.finish([run.key])
            return
        log.debug("starting session %s", run.key)
        self._driver.start(_order(run, run.lease))


def _order(run: Run, lease: Lease) -> Order:
    avoid = lease.get("avoid_node", "")
    # Secrets are not kept after the start, so they are never written to a file.
    secrets = lease.pop("secret_environ", {})
    nodes = tuple(lease.get("nodes") or ())
    left_out = tuple(lease.get("avoid_nodes") or ())
    return Order(
        *(run.key, lease["spec"], lease["environ"], run.files, avoid, secrets, nodes, left_out),
        priority_class=lease.get("priority_class", ""),
        node_labels=lease.get("node_labels") or {},
        pod_defaults=lease.get("pod_defaults") or {},
    )
