"""The executors' Pythons: versions, packages, which masters, brokers and web ports they reach. Judged on the driver."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from spark_source.session import is_connect
from tubeclient_cli.common.deadline import within
from tubeclient_cli.common.live import live_tasks
from tubeclient_cli.common.terminal import ExitCode
from tubeclient_cli.doctor.cluster import CONNECT_SECONDS, Addresses, judge_reach
from tubeclient_cli.doctor.finding import Finding, good, problem
from tubeclient_cli.doctor.machine import OF_TASKS, importlib_requires, judge_packages, versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_executors", "judge_executors", "probe_text"]

_MOST_TASKS: Final = 16
_JOB_SECONDS: Final = 90.0
_OWN: Final = "pyspark-tubeclient"

# A text, because Spark pickles a function of this package by its name, which executors without the package do not find.
_PROBE: Final = """
def probe(number):
    import json, socket, sys
    from importlib.metadata import PackageNotFoundError, version
    def version_of(name):
        try:
            return version(name)
        except PackageNotFoundError:
            # Spark's own folder brings pyspark, which pip does not know there.
            return __import__(name).__version__ if name == "pyspark" else None
    def fault_of(address):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS).close()
        except (OSError, UnicodeError) as error:
            return getattr(error, "strerror", None) or str(error)
    def imports(name):
        try:
            __import__(name)
        except ImportError:
            return False
        return True
    return json.dumps({
        "host": socket.gethostname(),
        "python": list(sys.version_info[:2]),
        "executable": sys.executable,
        "packages": {name: version_of(name) for name in PACKAGES},
        "imports": imports("spark_source.source"),
        "faults": {address: fault_of(address) for address in ADDRESSES},
    })
"""


def check_executors(spark: SparkSession, addresses: Addresses) -> Iterator[Finding]:
    """The findings of a Spark job with a task for each core, at most 16; ended after 90 s."""
    from pyspark.sql.functions import udf

    space: dict[str, Any] = {"__name__": "__main__"}
    exec(probe_text(addresses.all()), space)  # noqa: S102 - the text above, with no user's text but quoted addresses
    # Neither pandas nor pyarrow is needed for it: executors may lack them.
    probe = udf(space["probe"], "string", useArrow=False)
    count = _MOST_TASKS if is_connect(spark) else min(spark.sparkContext.defaultParallelism, _MOST_TASKS)

    def run() -> list[str]:
        return [row.report for row in spark.range(0, count, 1, count).select(probe("id").alias("report")).collect()]

    try:
        with live_tasks(spark, "asking the executors"):
            reports = within(_JOB_SECONDS, run)
    except TimeoutError as error:
        action = "look at Spark's master: are there workers with free cores and memory?"
        yield problem("executors", str(error), action, ExitCode.UNREACHABLE)
    except Exception as error:
        from tubeclient_ingest.advice import short_cause

        yield problem("executors", short_cause(str(error)), "set PYSPARK_PYTHON to a Python that all executors have")
    else:
        yield from judge_executors([json.loads(text) for text in reports], sys.version_info[:2], addresses)


def probe_text(addresses: Sequence[str]) -> str:
    """The source of the function that tasks run."""
    names = {"SECONDS": CONNECT_SECONDS, "PACKAGES": OF_TASKS, "ADDRESSES": list(addresses)}
    return "".join(f"{name} = {value!r}\n" for name, value in names.items()) + _PROBE


def judge_executors(
    reports: Sequence[Mapping[str, Any]], driver: tuple[int, int], addresses: Addresses
) -> Iterator[Finding]:
    """`reports` are what the probe gave; one for each host and Python is judged. `driver` is the driver's Python;
    `addresses` are those that the probe tried."""
    for report in {(one["host"], one["executable"]): one for one in reports}.values():
        where = f" on executor {report['host']}"
        python = tuple(report["python"])
        text = f"{'.'.join(map(str, python))}, {report['executable']}"
        if python != driver:
            action = f"set PYSPARK_PYTHON to a Python {'.'.join(map(str, driver))} that all executors have"
            yield problem(f"Python{where}", text, action)
        else:
            yield good(f"Python{where}", text)
        if not report["imports"]:
            yield problem(
                f"packages{where}",
                f"{report['executable']} cannot import pyspark-tubeclient",
                "install it there, or set PYSPARK_PYTHON to a Python that has it",
            )
        # What the driver lacks, it says itself.
        here = versions()
        wanted = {name: version for name, version in report["packages"].items() if here.get(name) is not None}
        yield from judge_packages(wanted, importlib_requires(), where)
        theirs, ours = wanted.get(_OWN), here[_OWN]
        if None not in (theirs, ours) and theirs != ours:
            text = f"{_OWN} is {theirs}, and the driver has {ours}"
            yield problem(f"packages{where}", text, "install the same version on the driver and on all executors")
        from_here = f" from executor {report['host']}"
        faults = report["faults"]
        # Tasks that write ask a master for the brokers.
        of_masters = {address: faults[address] for address in addresses.masters}
        yield from judge_reach("master", of_masters, from_here, needs_all=False)
        of_brokers = {address: faults[address] for address in addresses.brokers}
        yield from judge_reach("broker", of_brokers, from_here)
