"""What a running job serves for Prometheus; no Spark runs here."""

from __future__ import annotations

import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tests.waiting import wait_for
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app
from tubeclient_cli.ingest import metrics_server
from tubeclient_cli.ingest.metrics import IngestMetrics
from tubeclient_ingest.progress import Round
from tubeclient_ingest.settings import IngestSettings

# After the start of any job.
AT = "2100-11-23T10:00:00.000+00:00"
TEN = datetime(2100, 11, 23, 10, tzinfo=UTC).timestamp()


def settings(folder: Path, offsets_table: str | None = None) -> IngestSettings:
    return IngestSettings(
        master_servers="127.0.0.1:8715",
        consumer_group="clicks_etl",
        topics=("clicks",),
        target=str(folder / "target"),
        offsets_table=offsets_table,
    )


@pytest.fixture
def metrics(tmp_path: Path) -> Iterator[IngestMetrics]:
    with IngestMetrics(settings(tmp_path), "127.0.0.1", 0) as serving:
        yield serving


def scrape(metrics: IngestMetrics) -> dict[str, float]:
    """The samples of the job's query."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        sample.name.removeprefix("tubeclient_query_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels == {"query": "ingest clicks_etl"}
    }


def test_the_jobs_rounds_are_served(metrics: IngestMetrics) -> None:
    metrics.round_done(Round(AT, 1, 10, 10, 1.5, 6.7, 30, bad_rows=2, total_bad_rows=2))
    metrics.round_done(Round(AT, 2, 30, 40, 0.5, 60.0, 0, bad_rows=1, total_bad_rows=3))
    metrics.looked(datetime(2100, 11, 23, 10, 0, 10, tzinfo=UTC))
    found = scrape(metrics)
    assert (found["rows_total"], found["batches_total"], found["bad_records_total"]) == (40, 2, 3)
    assert (found["rows_behind"], found["batch_duration_seconds_sum"]) == (0, 2.0)
    assert (found["last_batch_timestamp_seconds"], found["last_trigger_timestamp_seconds"]) == (TEN, TEN + 10)


def silent(metrics: IngestMetrics) -> socket.socket:
    return socket.create_connection(("127.0.0.1", metrics.port), timeout=10)


def test_who_says_nothing_is_hung_up_on(metrics: IngestMetrics, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "_CLIENT_TIMEOUT_S", 0.1)
    with silent(metrics) as peer:
        assert peer.recv(1) == b""
    with silent(metrics) as peer:
        peer.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert peer.recv(1) == b""


def test_many_who_say_nothing_take_a_few_threads_of_the_job_and_no_more(metrics: IngestMetrics) -> None:
    with ExitStack() as held:
        for _ in range(32):
            held.enter_context(silent(metrics))
        wait_for(lambda: sum("process_request" in one.name for one in threading.enumerate()) == 32, "all to be heard")
        for _ in range(100):
            with silent(metrics) as peer:
                assert peer.recv(1) == b""
        assert sum("process_request" in one.name for one in threading.enumerate()) == 32
    wait_for(lambda: "process_request" not in str(threading.enumerate()), "all to be gone")
    metrics.looked(datetime.fromisoformat(AT))
    assert scrape(metrics)["last_trigger_timestamp_seconds"] == TEN


def test_the_age_of_the_offsets_table_is_served(tmp_path: Path) -> None:
    table = OffsetsTable(str(tmp_path / "offsets"), clock_ms=lambda: int(TEN * 1000))
    key = GroupKey("clicks_etl", ["clicks"])
    table.open_run(key, 1).record([PartitionProgress(PartitionKey(1, "clicks", 0), 28)])
    written = table.latest(key)
    assert written is not None
    with IngestMetrics(settings(tmp_path, str(tmp_path / "offsets")), "127.0.0.1", 0) as metrics:
        name = "offsets_table_timestamp_seconds"
        wait_for(lambda: scrape(metrics).get(name) == written.updated_at.timestamp(), "a look at the table")


def test_a_table_that_cannot_be_read_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "offsets" / "_delta_log").mkdir(parents=True)
    (tmp_path / "offsets" / "_delta_log" / "00000000000000000000.json").write_text("no table")
    with IngestMetrics(settings(tmp_path, str(tmp_path / "offsets")), "127.0.0.1", 0) as metrics:
        wait_for(lambda: "metrics show an older state" in caplog.text, "the warning")
        assert "rows_behind" not in scrape(metrics)


def test_a_job_that_never_completes_a_round_has_times(tmp_path: Path) -> None:
    before = time.time()
    with IngestMetrics(settings(tmp_path, str(tmp_path / "offsets")), "127.0.0.1", 0) as metrics:
        found = scrape(metrics)
        names = [name for name in found if name.endswith("timestamp_seconds")]
        assert names == [f"{what}_timestamp_seconds" for what in ("last_batch", "last_trigger", "offsets_table")]
        assert all(before <= found[name] <= time.time() for name in names)
    with IngestMetrics(settings(tmp_path), "127.0.0.1", 0) as metrics:
        assert "offsets_table_timestamp_seconds" not in scrape(metrics)


def test_any_error_of_a_look_is_a_warning_and_the_next_look_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tubeclient_cli.ingest.metrics._TABLE_SECONDS", 0.01)
    looks: list[GroupKey] = []

    def latest(table: OffsetsTable, key: GroupKey) -> None:
        looks.append(key)
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(OffsetsTable, "latest", latest)
    with IngestMetrics(settings(tmp_path, str(tmp_path / "offsets")), "127.0.0.1", 0):
        wait_for(lambda: len(looks) > 1, "the second look")
    assert "older state of the offsets table: unforeseen" in caplog.text


def test_nothing_is_served_after_the_end(tmp_path: Path) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with IngestMetrics(settings(tmp_path, str(tmp_path / "offsets")), "127.0.0.1", 0) as metrics:
        port = metrics.port
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 5)
    wait_for(lambda: {thread.name for thread in threading.enumerate()} <= before, "the end of its threads")


def test_a_taken_port_is_one_clear_error_before_spark_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ["ingest", "--master-servers", "127.0.0.1:1", "--consumer-group", "g", "--topic", "clicks"]
        command += ["--target", str(tmp_path / "t"), "--metrics-port", str(port)]
        found = CliRunner().invoke(app, command)
    assert found.exit_code == 2
    [line] = found.output.splitlines()
    assert line.startswith("tubeclient ingest: ")
    assert line.endswith(
        f"metrics cannot be served at 127.0.0.1:{port}: Address already in use. Give another --metrics-port or "
        "--metrics-host"
    )


def test_an_address_that_is_not_ours_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be served at 192\.0\.2\.1:0: .+ Give another"):
        IngestMetrics(settings(tmp_path), "192.0.2.1", 0)


def test_an_empty_address_is_not_all_of_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--metrics-host is empty"):
        IngestMetrics(settings(tmp_path), "", 0)
