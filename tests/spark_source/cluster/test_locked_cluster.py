"""A cluster that is locked in every way, read through Spark: users, two-way TLS, visit tokens."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from tests.certificates import Certificate, CertificateAuthority, server_context
from tests.spark_source.feed import Feed
from tests.spark_source.queries import Batches, batch, run_available, running, stream, wait_for_rows
from tests.waiting import wait_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECRET = "hunter2-hunter2"

_numbers = itertools.count()


@dataclass(frozen=True)
class Locked:
    feed: Feed
    folder: Path
    """Holds the files `password` and `key_password`."""
    access: dict[str, str]
    """All options that it takes to be let in, passwords among them."""

    def options(self, **more: object) -> dict[str, str]:
        return {**self.feed.options("", startingOffsets="earliest", **more), **self.access}


@pytest.fixture(scope="module")
def locked_tube(
    tmp_path_factory: pytest.TempPathFactory, authority: CertificateAuthority, server_certificate: Certificate
) -> Iterator[EmbeddedTubeMQ]:
    tls = server_context(server_certificate, authority.ca_file)
    folder = tmp_path_factory.mktemp("locked")
    with EmbeddedTubeMQ(
        folder, users={"alice": SECRET, "bob": sys.executable}, tls=tls, check_visit_token=True
    ) as running_tube:
        yield running_tube


@pytest.fixture(scope="module")
def own_certificate(authority: CertificateAuthority) -> Certificate:
    return authority.issue("spark-client")


@pytest.fixture
def locked(
    locked_tube: EmbeddedTubeMQ,
    authority: CertificateAuthority,
    own_certificate: Certificate,
    tmp_path: Path,
) -> Locked:
    (tmp_path / "password").write_text(SECRET + "\n")
    access = {
        "masterServers": locked_tube.master_tls_address,
        "authUser": "alice",
        "authPassword": SECRET,
        "tls.caFile": authority.ca_file,
        "tls.certificateFile": own_certificate.certificate_file,
        "tls.keyFile": own_certificate.key_file,
    }
    return Locked(Feed.create(locked_tube, f"locked{next(_numbers)}", stores=2, partitions=1), tmp_path, access)


@pytest.mark.merge
@pytest.mark.parametrize("by_web", [True, False])
def test_batch_and_stream_read_what_the_locks_guard(
    delta_spark: SparkSession, locked: Locked, tmp_path: Path, by_web: bool
) -> None:
    """Offsets over HTTP, which asks nobody, or over the protocol, which does."""
    feed = locked.feed
    feed.send(60)
    options = locked.options() if by_web else locked.options(masterWebPort=1)
    assert sorted(bytes(row.value) for row in batch(delta_spark, options).collect()) == feed.sent
    sink = Batches()
    run_available(stream(delta_spark, options), tmp_path / "checkpoint", sink)
    assert sink.all == feed.sent


def test_passwords_are_not_exposed(delta_spark: SparkSession, locked: Locked, tmp_path: Path) -> None:
    """No plan, progress, checkpoint, or offsets table contains a password."""
    locked.feed.send(10)
    frame = stream(delta_spark, locked.options(offsetsTable=tmp_path / "offsets"))
    sink = Batches()
    with running(frame, tmp_path / "checkpoint", sink) as query:
        wait_for_rows(query, sink, 10, "a batch")
        wait_for(lambda: query.recentProgress, "its progress")
        shown = query._jsq.explainInternal(True) + frame._jdf.queryExecution().toString()
        shown += str(query.recentProgress) + str(query.status)
    read = batch(delta_spark, locked.options())
    assert read.count() == 10
    shown += read._jdf.queryExecution().toString()
    for folder in ("checkpoint", "offsets"):
        shown += "".join(path.read_text(errors="replace") for path in (tmp_path / folder).rglob("*") if path.is_file())
    assert "alice" in shown  # the options are shown
    assert SECRET not in shown
