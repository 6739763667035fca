"""Of pods in lists only what is read is kept; nobody who reads it can tell."""

from typing import Any

import pytest

from executor.drivers.kubernetes import pod_names
from executor.drivers.kubernetes.pod_places import Place
from executor.drivers.kubernetes.pod_run import Known, key_of_pod, noted
from tests.unit.retry.recorded import NAMES, recorded

LABELS = {
    pod_names.SESSION: "one",
    pod_names.TOKEN: "7",
    pod_names.ROOT: "root",
    pod_names.ATTEMPT: "2",
}


def _ours(name: str) -> dict[str, Any]:
    made: dict[str, Any] = recorded(name)
    made["metadata"]["labels"] = LABELS
    made["metadata"]["finalizers"] = ["other/finalizer", pod_names.FINALIZER]
    size = {"name": "REPRISE_CLUSTER_SIZE", "value": "3"}
    made["spec"]["containers"][0]["env"] = [{"name": "SECRET", "value": "x"}, size]
    made["spec"]["containers"].append({"name": "main", "image": "busybox"})
    return made


@pytest.mark.parametrize("name", NAMES)
def test_kept_fields_give_the_same_result(name: str) -> None:
    whole = _ours(name)
    kept = noted(whole)
    assert Known.of(kept) == Known.of(whole)
    assert Known.of(kept).held
    assert Known.of(kept).main == "main"
    assert key_of_pod(kept) == key_of_pod(whole) == ("one", 7)
    place = Place.of_pod(kept)
    assert place is not None
    assert place == Place.of_pod(whole)
    assert len(place.pods) == 3
    assert "SECRET" not in str(kept)


def test_a_pod_of_others_is_kept_as_well() -> None:
    assert Known.of(noted({"metadata": {"name": "bare"}})).main == ""
    assert not Known.of(noted({"metadata": {"name": "bare"}})).held
