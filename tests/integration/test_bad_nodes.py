"""The benchmark of suspect nodes, in a small form: real rounds, and a simulated cluster."""

import pytest

from benchmarks.bad_nodes import Size, measured
from benchmarks.played_cluster import quiet

pytestmark = pytest.mark.django_db(transaction=True)


def test_the_bad_node_is_found_no_other_is_and_less_is_wasted() -> None:
    with quiet():
        figures = measured(Size(nodes=20, bad=1, chains=500), signatures=(3,))
    assert figures["found"] == 1.0
    assert figures["false_suspects"] == 0
    assert figures["waste_ratio"] < 0.6
    assert figures["burst_suspects"] <= 1
