"""Fixtures for many parts of the tests."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.certificates import Certificate, CertificateAuthority
from tests.distributions import Distributions, build_distributions
from tests.spark_home import JAVA_OPTIONS, SPARK_HOME, delta_confs
from tests.tiers import group_of, is_nightly, rank_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Machines stall, and how long an example took says nothing. All else stays as Hypothesis has it, for build servers too.
settings.register_profile("unhurried", settings(), deadline=None)
settings.load_profile("unhurried")
# For all but `make test-all`: every test, with a fifth of the generated examples.
settings.register_profile("fast", settings(), deadline=None, max_examples=20)


# spark-submit reads it: for the session of the run, and for those that tests start in processes of their own.
os.environ["SPARK_SUBMIT_OPTS"] = JAVA_OPTIONS
os.environ["SPARK_HOME"] = str(SPARK_HOME)
# A developer's own cluster is none of the tests' business.
for _name in ("TUBECLIENT_MASTER_SERVERS", "TUBECLIENT_MASTER_WEB_PORT", "TUBECLIENT_MODIFY_TOKEN"):
    os.environ.pop(_name, None)


# Whoever starts something in the background may have it ignore Ctrl-C, and so would the programs that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]
    """Deals files to processes, those of a group to one."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0].removeprefix("tests/"))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByGroup | None:
    """For `--dist loadgroup`: xdist's own finds no groups with pytest 9.2."""
    return ByGroup(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives each test its marks, and the run its order."""
    for item in items:
        if "delta_spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        if is_nightly(item):
            item.add_marker(pytest.mark.nightly)
    items.sort(key=rank_of)


def pytest_collection_finish() -> None:
    """What the test modules hold lives until the end. Without this, each garbage collection looks through all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def delta_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one SparkSession of a test run, with the Delta jars; two threads and 1 GB, which small machines have."""
    from tubeclient_cli.common.session import make_session

    # Spark's Python workers are to be this very Python, not the first "python3" on PATH.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    confs = {
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM would list a folder with 10,000 tasks.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        **delta_confs(),
    }
    spark = make_session("tests", "local[2]", confs)
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """The wheel and the source archive of this tree."""
    return build_distributions(tmp_path_factory.mktemp("distributions"))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> CertificateAuthority:
    """Who signs the certificates that the tests of TLS trust."""
    return CertificateAuthority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def server_certificate(authority: CertificateAuthority) -> Certificate:
    """For servers at 127.0.0.1."""
    return authority.issue("server")
