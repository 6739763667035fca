"""Refused plans: what the words of a cluster say about the planned node."""

import pytest

from scheduler.core.placement import resources_lacking

ELSEWHERE = "2 node(s) didn't match Pod's node affinity/selector"


@pytest.mark.parametrize(
    ("words", "lacking"),
    [
        (f"0/3 nodes are available: 1 Insufficient cpu, {ELSEWHERE}.", ["cpu"]),
        (f"0/3 nodes are available: {ELSEWHERE}, 1 Too many pods. preemption: none", ["pods"]),
        (
            "0/1 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Insufficient memory.",
            ["memory", "nvidia.com/gpu"],
        ),
        (f"0/3 nodes are available: 1 node(s) had taint {{a: }}, {ELSEWHERE}.", []),
        ("0/1 nodes are available: 1 Insufficient ephemeral-storage.", ["ephemeral-storage"]),
        ("", []),
    ],
)
def test_the_resources_that_a_node_lacks(words: str, lacking: list[str]) -> None:
    assert resources_lacking(words) == lacking
