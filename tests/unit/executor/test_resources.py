"""Drivers that count amounts take those that the server takes, however they are written."""

from typing import Any

import pytest
from reprise_client.wire import Spec

from base.podspec.quantity import LARGEST
from executor.drivers.local.driver import LocalDriver
from executor.drivers.simulated.driver import SimulatedDriver
from executor.drivers.simulated.script import Script
from tests.quantities import AMOUNTS, NEGATIVE, TOO_LARGE, TOO_LONG, UNREADABLE


@pytest.fixture(params=["local", "simulated"])
def driver(request: pytest.FixtureRequest) -> Any:
    if request.param == "local":
        return LocalDriver()
    most = {"cpu": "1", "memory": str(LARGEST)}
    return SimulatedDriver(Script(node=most), seed=1, nodes=1, speed=0)


def spec(**resources: Any) -> Spec:
    return {"name": "", "command": [], "resources": resources}


@pytest.mark.parametrize("text", AMOUNTS)
def test_every_spelling_of_an_amount_is_taken(driver: Any, text: str) -> None:
    assert driver.refusal(spec(memory=text)) is None
    assert driver.refusal(spec(requests={"memory": text}, limits={"memory": text})) is None


@pytest.mark.parametrize("text", AMOUNTS)
def test_every_spelling_counts_as_held(text: str) -> None:
    (node,) = LocalDriver().nodes([{"memory": text, "cpu": text}])
    (whole,) = LocalDriver().nodes([])
    assert (node["free"] != whole["free"]) == (AMOUNTS[text] > 0)


@pytest.mark.parametrize("text", [*NEGATIVE, *UNREADABLE, *TOO_LONG, *TOO_LARGE])
def test_sessions_with_refused_resources_are_handed_back(driver: Any, text: str) -> None:
    assert driver.refusal(spec(memory=text)).startswith("resources: memory: ")
