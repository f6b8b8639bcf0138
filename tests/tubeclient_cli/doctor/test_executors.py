"""What the doctor says of executors; the probe runs here, as it would in a task."""

from __future__ import annotations

import json
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

from tubeclient_cli.common.terminal import ExitCode
from tubeclient_cli.doctor.cluster import Addresses, reach
from tubeclient_cli.doctor.executors import check_executors, judge_executors, probe_text
from tubeclient_cli.doctor.finding import Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER = sys.version_info[:2]


def probed(*addresses: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(probe_text(addresses), space)
    found: dict[str, Any] = json.loads(space["probe"](1))
    return found


def problems(report: dict[str, Any], addresses: Addresses) -> list[Finding]:
    return [one for one in judge_executors([report], DRIVER, addresses) if not one.is_ok]


def test_an_executor_like_the_driver_is_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        report = probed(address, "a..b:1")
    assert "label" in report["faults"].pop("a..b:1")
    assert "label" in (reach(["a..b:1"])["a..b:1"] or "")
    assert report["faults"] == {address: None}
    assert report["executable"] == sys.executable
    found = list(judge_executors([report, report], DRIVER, Addresses(brokers=[address])))
    assert [one for one in found if not one.is_ok] == []
    checks = [one.check for one in found]
    assert len(checks) == len(set(checks)), "one host and Python is judged once"


def test_the_probe_needs_nothing_of_this_package() -> None:
    """Spark pickles it by value; by name, an executor without the package would not find it."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(probe_text([]), space)
    pickled: bytes = cloudpickle.dumps(space["probe"])  # type: ignore[no-untyped-call]
    assert b"tubeclient_cli" not in pickled


def test_what_an_executor_lacks() -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        report = probed(address) | {"python": [3, 9], "imports": False}
    report["packages"]["pyarrow"] = None
    report["faults"]["m:1"] = "timed out"
    addresses = Addresses(["m:1"], [address])
    python, package, pyarrow, master, broker = problems(report, addresses)
    assert master.text.startswith("m:1 not reached from executor")
    assert master.check == "master"
    assert "3.9" in python.text
    assert f"set PYSPARK_PYTHON to a Python {sys.version_info[0]}.{sys.version_info[1]}" in python.action
    assert "cannot import pyspark-tubeclient" in package.text
    assert pyarrow.text == "pyarrow is missing"
    assert broker.text.startswith(f"{address} not reached from executor")
    assert broker.code is ExitCode.UNREACHABLE


def test_another_version_of_this_package_than_the_drivers() -> None:
    report = probed()
    report["packages"]["pyspark-tubeclient"] += "1"
    [found] = problems(report, Addresses())
    assert ", and the driver has " in found.text
    assert found.action == "install the same version on the driver and on all executors"


def test_what_tasks_do_not_need_is_not_asked_for() -> None:
    assert {"pyarrow", "protobuf"} < probed()["packages"].keys()
    assert not {"delta-spark", "deltalake"} & probed()["packages"].keys()


@pytest.mark.spark
def test_executors_are_asked_in_tasks(delta_spark: SparkSession) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        there, missing = (f"127.0.0.1:{one.getsockname()[1]}" for one in (server, taken))
        found = list(check_executors(delta_spark, Addresses([there], [missing])))
    said = {one.check.partition(" on executor")[0]: one for one in found}
    assert {check: one.is_ok for check, one in said.items()} == {
        "Python": True,
        "packages": True,
        "master": True,
        "broker": False,
    }
    assert said["Python"].text.endswith(sys.executable)
    assert said["broker"].text.startswith(f"{missing} not reached from executor ")
