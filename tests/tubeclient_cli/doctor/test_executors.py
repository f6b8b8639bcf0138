"""What the doctor says of executors; the probe runs here, as it would in a task."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Collection
from typing import Any

from pyspark import cloudpickle

from tubeclient_cli.common.terminal import ExitCode
from tubeclient_cli.doctor.executors import judge_executors, probe_text
from tubeclient_cli.doctor.finding import Finding


def probed(*addresses: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(probe_text(addresses), space)
    [text] = space["probe"](iter([1]))
    found: dict[str, Any] = json.loads(text)
    return found


def problems(*reports: dict[str, Any], masters: Collection[str] = ()) -> list[Finding]:
    return [one for one in judge_executors(reports, sys.version_info[:2], masters) if not one.is_ok]


def test_an_executor_like_the_driver_is_well() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        report = probed(address)
    assert report["faults"] == {address: None}
    assert report["executable"] == sys.executable
    assert problems(report) == []
    checks = [one.check for one in judge_executors([report, report], sys.version_info[:2])]
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
    python, package, pyarrow, master, broker = problems(report, masters=["m:1"])
    assert master.text.startswith("m:1 not reached from executor")
    assert master.check == "master"
    assert "3.9" in python.text
    assert f"set PYSPARK_PYTHON to a Python {sys.version_info[0]}.{sys.version_info[1]}" in python.action
    assert "cannot import pyspark-tubeclient" in package.text
    assert pyarrow.text == "pyarrow is missing"
    assert broker.text.startswith(f"{address} not reached from executor")
    assert broker.code is ExitCode.UNREACHABLE
