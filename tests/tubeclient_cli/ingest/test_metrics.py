"""What a running job serves for Prometheus; no Spark runs here."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from tests.waiting import wait_for
from tubeclient.errors import ConfigurationError
from tubeclient_cli.app import app
from tubeclient_cli.ingest.metrics import serve_metrics
from tubeclient_ingest.run import Event, Idle, Round

Metrics = tuple[Callable[[Event], None], int]

# After the start of any job.
AT = "2100-11-23T10:00:00.000+00:00"
TEN = datetime(2100, 11, 23, 10, tzinfo=UTC).timestamp()


@pytest.fixture
def metrics() -> Iterator[Metrics]:
    with serve_metrics("clicks_etl", "127.0.0.1", 0) as serving:
        yield serving


def scrape(metrics: Metrics) -> dict[str, float]:
    """The samples of the job's query."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics[1]}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        sample.name.removeprefix("tubeclient_query_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels == {"query": "ingest clicks_etl"}
    }


def test_the_jobs_rounds_are_served(metrics: Metrics) -> None:
    metrics[0](Round(AT, 1, 10, 10, 1.5, 6.7, 30, bad_rows=2, total_bad_rows=2))
    metrics[0](Round(AT, 2, 30, 40, 0.5, 60.0, 0, bad_rows=1, total_bad_rows=3))
    metrics[0](Idle(datetime(2100, 11, 23, 10, 0, 10, tzinfo=UTC)))
    found = scrape(metrics)
    assert (found["rows_total"], found["batches_total"], found["bad_records_total"]) == (43, 2, 3)
    assert (found["rows_behind"], found["batch_duration_seconds_sum"]) == (0, 2.0)
    assert (found["last_batch_timestamp_seconds"], found["last_trigger_timestamp_seconds"]) == (TEN, TEN + 10)


def test_a_job_that_never_completes_a_round_has_times() -> None:
    before = time.time()
    with serve_metrics("clicks_etl", "127.0.0.1", 0) as metrics:
        found = scrape(metrics)
    names = [name for name in found if name.endswith("timestamp_seconds")]
    assert names == [f"{what}_timestamp_seconds" for what in ("last_batch", "last_trigger")]
    assert all(before <= found[name] <= time.time() for name in names)


def test_nothing_is_served_after_the_end() -> None:
    before = {thread.name for thread in threading.enumerate()}
    with serve_metrics("clicks_etl", "127.0.0.1", 0) as metrics:
        _, port = metrics
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    wait_for(lambda: {thread.name for thread in threading.enumerate()} <= before, "the end of its threads")


def test_taken_port(tmp_path: Path) -> None:
    """A taken metrics port is a one-line error before Spark starts."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["ingest", "--master-servers", "127.0.0.1:1", "--consumer-group", "g", "--topic", "clicks"]
        command += ["--target", str(tmp_path / "t"), "--metrics-port", str(port)]
        found = CliRunner().invoke(app, command)
    assert found.exit_code == 2
    [line] = found.output.splitlines()
    assert line.startswith("tubeclient ingest: ")
    assert line.endswith(
        f"metrics cannot be served at 127.0.0.1:{port}: Address already in use. Use another --metrics-port or "
        "--metrics-host"
    )


@pytest.mark.parametrize(
    ("host", "said"),
    [("192.0.2.1", r"cannot be served at 192\.0\.2\.1:0: .+ Use another"), ("", "--metrics-host is empty")],
)
def test_an_address_that_is_not_ours_is_an_error(host: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said), serve_metrics("clicks_etl", host, 0):
        pass
