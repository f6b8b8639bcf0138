"""The views of an ingest job, without Spark: what its work would return is given."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from embedded_tubemq import EmbeddedTubeMQ
from tests.tubeclient.inlong_audit import audit_service
from tests.tubeclient_cli.audit.test_command import COLUMNS, row, sent
from tests.tubeclient_ui.viewer import Viewer, settings_of
from tubeclient import PartitionKey
from tubeclient.admin.inlong_audit import AuditService
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.rounds.past_rounds import PastRound
from tubeclient_ingest.rounds.retrying import Retried
from tubeclient_ingest.tables.spark_errors import IngestFailed
from tubeclient_ui import app, job
from tubeclient_ui.bodies import with_fault
from tubeclient_ui.job import JobFile
from tubeclient_ui.spark import SparkBusy

AT = datetime(2026, 11, 23, 10, tzinfo=UTC)
KEY = PartitionKey(1, "clicks", 0)


class AtOnce:
    """Spark that works while it is waited for, and gives each result once more."""

    def __init__(self) -> None:
        self.results: dict[Any, Any] = {}
        self.is_busy = False

    def result(self, key: Any, work: Callable[[Any], Any], **_: Any) -> Any:
        if self.is_busy:
            raise SparkBusy(3.0, starts=False)
        if key[0] != "retry":
            return work(self)
        if key not in self.results:
            self.results[key] = work(self)  # not if it fails
        return self.results[key]

    def close(self) -> None: ...


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    made = AtOnce()
    monkeypatch.setattr(app, "Spark", lambda: made)
    return made


@pytest.fixture
def views(tube: EmbeddedTubeMQ, tmp_path: Path, spark: AtOnce) -> Callable[..., Viewer]:
    """The page of a job's settings with this text besides."""

    def opened(text: str = "", *masks: str, **options: Any) -> Viewer:
        path = tmp_path / "ingest job.toml"
        own = f'target = "{tmp_path}/lake"\nbad-records = "{tmp_path}/bad"\ntopics = ["clicks"]\n'
        path.write_text(f'[ingest]\nconsumer-group = "etl"\nmaster-servers = "{tube.master_address}"\n{text or own}')
        audit = options.pop("audit", None)
        service = None if audit is None else AuditService(audit, ZoneInfo("UTC"))
        file = JobFile(path, {"master_servers": None, "source_options": {}}, {}, service)
        return Viewer(options.pop("settings", settings_of(tube)), *masks, job=file, **options)

    return opened


def past(number: int, rows: int | None, bad: int = 0, **more: Any) -> PastRound:
    given = {"is_retry": False, "is_undone": False, "end_offsets": {KEY: 28 * number}, **more}
    return PastRound(number, AT + timedelta(seconds=10 * number), number, rows, bad, **given)


def test_rounds_with_their_lines(views: Callable[..., Viewer], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows per second since the round before; messages behind as of now, with the command's function."""
    rounds = [past(4, 5, is_undone=True), past(3, 7, is_retry=True), past(2, 90, 10), past(1, 50), past(0, None)]
    monkeypatch.setattr(Ingest, "history", lambda _, limit: rounds)
    viewer = views()
    text = viewer.part("/job")
    assert "<b>7</b> messages behind" in text  # of ten, as the third commit ends
    assert "last commit: 2026-11-23 10:00:40+00:00" in text
    at = AT.timestamp()
    assert f'data-samples="[[{at + 10}, 5.0], [{at + 20}, 9.0]]" data-label="rows per second"' in text
    assert f'data-samples="[[{at + 10}, 0.0], [{at + 20}, 10.0]]" data-label="bad records, %"' in text
    assert "undone by RESTORE" in text
    assert "a retry" in text
    monkeypatch.setattr(Ingest, "history", lambda _, limit: [past(n, n) for n in reversed(range(250))][:limit])
    assert "Page 1 of 2" in viewer.part("/job")
    assert "Page 3 of 3" in viewer.part("/job", page=2)
    monkeypatch.setattr(Ingest, "history", lambda _, limit: [])
    assert "no round of this group" in viewer.part("/job")


def test_brokers_that_are_silent_hide_no_round(
    views: Callable[..., Viewer], monkeypatch: pytest.MonkeyPatch, tube: EmbeddedTubeMQ
) -> None:
    """Only how far the job is behind is unknown then."""
    monkeypatch.setattr(Ingest, "history", lambda _, limit: [past(1, 50)])
    viewer = views('target = "/t"\ntopics = ["nowhere"]\n')
    text = viewer.part("/job")
    assert "The cluster could not be asked" in text
    assert "<b>7</b>" not in text
    assert '<td class="n">50' in text


def test_an_error_of_a_table_is_shown(views: Callable[..., Viewer], monkeypatch: pytest.MonkeyPatch) -> None:
    """In its own words; the other views go on."""

    def fails(_: Any, limit: int) -> list[PastRound]:
        raise IngestFailed("delta-rs cannot use s3://lake/<t>: timeout")

    monkeypatch.setattr(Ingest, "history", fails)
    viewer = views()
    assert "delta-rs cannot use s3://lake/&lt;t&gt;: timeout" in viewer.part("/job")
    assert "clicks" in viewer.part("/cluster")
    assert "this job writes one table" in viewer.part("/streams")
    assert ">Streams</a>" not in viewer.client.get("/job").text


def test_while_spark_works_the_page_asks_again(views: Callable[..., Viewer], spark: AtOnce) -> None:
    """With the same address, and for a dry run with its number."""
    viewer = views()
    spark.is_busy = True
    text = viewer.part("/bad", reason="JSON", day="2026-11-23")
    assert "Spark is working … 3 s" in text
    assert 'hx-get="/bad?reason=JSON&amp;day=2026-11-23"' in text
    assert 'hx-get="/retry?reason=x&amp;dry=1&amp;plan=' in viewer.part("/retry", reason="x", dry=1)


def test_streams_with_their_counts(views: Callable[..., Viewer], tmp_path: Path) -> None:
    """Of one day, as the command judges them; records without a time beside."""
    day = datetime.now(UTC).replace(hour=0, minute=5, second=0, microsecond=0) - timedelta(days=1)
    hour = timedelta(hours=1)
    rows = [
        row(day - 24 * hour, 1, sequence=1),
        row(day, 7, 2, sequence=2),
        row(day + hour, 1_000, sequence=3),
        row(day + 2 * hour, 5, sequence=3, stream="views", received=9),
        row(None, 3, sequence=3),
        row(day + 23 * hour, 1, sequence=4, time=day + 24 * hour),
    ]
    write_deltalake(tmp_path / "_counts", pa.Table.from_pylist(rows, COLUMNS))
    viewer = views(f'target = "{tmp_path}/{{stream}}"\ninlong-group = "shop"\n')
    text = viewer.part("/streams", day=day.date())
    assert '<td>clicks<td class="n">1,010<td class="n">1,008<td class="n">2<td class="state active">complete' in text
    assert '<td>views<td class="n">9<td class="n">5<td class="n">0<td class="state down">missing' in text
    assert 'without a data time, all days</small><td class="n">3' in text
    assert "No records" not in text
    assert ">Streams</a>" in viewer.client.get("/job").text
    assert f"ingest job.toml' --audit URL --since {day.date()}" in text.replace("&#39;", "'")
    assert "No records of this day." not in viewer.part("/streams", day=day.date() - timedelta(days=1))
    assert "write it as 2026-11-21" in viewer.part("/streams", day="yesterday")


def test_streams_beside_audit(views: Callable[..., Viewer], tmp_path: Path) -> None:
    """What DataProxy sent, as the command compares it; if Audit is away, the page says so and shows the counts."""
    day = datetime.now(UTC).replace(hour=0, minute=5, second=0, microsecond=0) - timedelta(days=1)
    hour = timedelta(hours=1)
    rows = [row(day + at * hour, 2, 1, sequence=at + 25, time=day + at * hour) for at in (-24, 1, 9)]
    rows += [row(day + at * hour, 5, sequence=25 + at, stream="views", time=day + at * hour) for at in (1, 2)]
    rows += [row(day + 9 * hour, 5, sequence=34, stream="late", time=day + 9 * hour)]
    write_deltalake(tmp_path / "_counts", pa.Table.from_pylist(rows, COLUMNS))
    text = f'target = "{tmp_path}/{{stream}}"\ninlong-group = "shop"\nstreams = ["clicks", "views", "late"]\n'
    reported = sent({day + hour: 3, day + 9 * hour: 3, day + 30 * hour: 7})
    reported += sent({day + hour: 1_200, day + 2 * hour: 5}, "views") + sent({day + 9 * hour: 6}, "late")
    with audit_service(reported) as (url, _):
        shown = views(text, audit=url).part("/streams", day=day.date())
    assert "<th class=n>sent<th class=n>received<" in shown
    assert '<td>clicks<td class="n">6<td class="n">6<td class="n">4<td class="n">2<td class="state active">com' in shown
    assert '<td>views<td class="n">1,205<td class="n">10<td class="n">10<td class="n">0<td class="state down">' in shown
    assert '<td>late<td class="n">6<td class="n">5<td class="n">5<td class="n">0<td class="state ">edge' in shown
    assert "tubeclient audit" not in shown
    shown = views(text, audit=url).part("/streams", day=day.date())
    assert "did not answer" in shown
    assert '<td>clicks<td class="n">6<td class="n">4<td class="n">2<td class="state active">complete' in shown
    assert "tubeclient audit" in shown


def found(reason: str = "a.<b> appears twice, at byte 5", text: str | None = "eyJhIjogPH0=") -> dict[str, Any]:
    place = {"inlongStreamId": None, "topic": "clicks", "partitionKey": str(KEY), "offset": 28, "messageId": 100}
    newest = {"id": "7-a", "time": "2026-11-23T10:00:00.000+00:00", "reason": reason, "recordIndex": None, **place}
    newest |= {"value": '{"a": <}', "valueBase64": text}
    reasons = [{"reason": reason.partition(", at byte")[0], "records": 1_200, "newest": newest["time"]}]
    return {"records": 1_200, "reasons": reasons, "days": [{"day": "2026-11-23", "records": 1_200}], "newest": [newest]}


@pytest.fixture
def with_bad(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What is asked for; one bad record."""
    asked: list[tuple[Any, ...]] = []

    def made(_: Any, *words: Any, **more: Any) -> dict[str, Any]:
        asked.append((*words, more["record_id"]))
        return found()

    monkeypatch.setattr(Ingest, "bad_records", lambda _: None)
    monkeypatch.setattr(job, "found_bad_records", made)
    return asked


def test_bad_records_by_reason_and_day(views: Callable[..., Viewer], with_bad: list[tuple[Any, ...]]) -> None:
    """Each is a link to those; one is opened with the byte marked; what is hostile is text."""
    viewer = views()
    text = viewer.part("/bad")
    assert "<b>1,200</b> bad records" in text
    assert '<a href="/bad?reason=a.%3Cb%3E+appears+twice">a.&lt;b&gt; appears twice</a>' in text
    assert '<a href="/bad?day=2026-11-23">2026-11-23</a>' in text
    assert 'hx-get="/bad/record?id=7-a"' in text
    assert "<}" not in text
    viewer.part("/bad", reason="twice", day="2026-11-23")
    assert with_bad[1] == ("twice", AT.replace(hour=0), 50, None)
    body = viewer.part("/bad/record", id="7-a")
    assert len(with_bad) == 2  # it is in the list
    assert "<mark> </mark>&lt;}</pre>" in body
    assert "<mark>20</mark>" in viewer.part("/bad/record", id="7-a", show="hex")
    assert "/bad?id=7-a&amp;show=hex" in viewer.part("/bad/record", id="7-a", show="hex")


def test_masks_hide_bad_records(views: Callable[..., Viewer], with_bad: list[tuple[Any, ...]]) -> None:
    """Their bytes, and names in reasons; without messages too."""
    viewer = views("", r"/a\.<b>/")
    text = viewer.part("/bad")
    assert "*** appears twice" in text
    assert "a.&lt;b&gt;" not in text
    assert "{&#34;a" not in text
    assert with_bad == [(None, None, 50, None)]
    body = views("", r"/a\.<b>/").part("/bad/record", id="7-a")
    assert with_bad[1:] == [(None, None, 1, "7-a")]
    assert "***</pre>" in body
    assert "&lt;}" not in body
    assert "this reason is masked" in viewer.part("/bad", reason="a.<b>")
    viewer = views("", with_messages=False)
    text = viewer.part("/bad")
    assert "a name appears twice" in text
    assert "a.&lt;b&gt;" not in text
    assert "{&#34;a" not in text
    assert viewer.client.get("/bad/record?id=7-a", headers={"HX-Request": "true"}).status_code == 404


@pytest.mark.parametrize(
    ("value", "kind", "at", "marked"),
    [
        (b"abc", "text", 1, "b"),
        ("é<é".encode(), "text", 3, "é"),
        (b"a\x1bc", "text", 1, "\\x1b"),
        (b"abc", "text", 3, " "),
        (b"abc", "json", 0, "a"),
        (b'{"a": 1}', "json", 6, ""),
        (bytes(range(40)), "hex", 33, "21"),
        (b"x" * 20_000, "hex", 19_999, " "),
    ],
)
def test_the_byte_of_a_fault_is_marked(value: bytes, kind: str, at: int, marked: str) -> None:
    """In each form that has it."""
    shown = {"base64": base64.b64encode(value).decode()}
    before, fault, after, _ = with_fault(shown, kind, f"it is not right, at byte {at}")
    assert fault == marked
    if kind == "text":
        assert (before + fault + after).strip() == with_fault(shown, kind, "it is not right")[0].strip()


def test_a_retry_is_done_once(views: Callable[..., Viewer], monkeypatch: pytest.MonkeyPatch) -> None:
    """After its dry run, if the page may change anything, with what was chosen."""
    asked: list[tuple[str | None, bool]] = []

    def retried(_: Any, reason: str | None, *, dry_run: bool) -> Retried:
        asked.append((reason, dry_run))
        return Retried(1_000, 2, 3, 4)

    monkeypatch.setattr(Ingest, "retry", retried)
    viewer = views()
    assert "Reason contains" in viewer.part("/retry", reason="a'b")
    assert asked == []
    text = viewer.part("/retry", reason="a'b", dry=1)
    assert "Bad records that would move: 1,000" in text
    assert "hx-post" not in text
    assert "tubeclient bad-records retry --settings" in text
    assert "--allow-changes lets it" in viewer.post("/retries?plan=x")
    viewer = views(allow_changes=True)
    text = viewer.part("/retry", dry=1)
    plan = text.partition("/retries?plan=")[2].partition('"')[0]
    assert "this retry was not begun" in viewer.part("/retries", plan=plan)
    assert "Bad records that were moved: 1,000" in viewer.post(f"/retries?plan={plan}")
    assert "Bad records that were moved: 1,000" in viewer.post(f"/retries?plan={plan}")
    assert "Bad records that were moved: 1,000" in viewer.part("/retries", plan=plan)
    assert asked == [("a'b", True), (None, True), (None, False)]


def test_a_retry_that_failed_is_an_error(views: Callable[..., Viewer], monkeypatch: pytest.MonkeyPatch) -> None:
    """And is not done again, whatever became of its result."""

    def retried(_: Any, reason: str | None, *, dry_run: bool) -> Retried:
        if not dry_run:
            raise IngestFailed("Spark is gone")
        return Retried(1, 0)

    monkeypatch.setattr(Ingest, "retry", retried)
    viewer = views(allow_changes=True)
    plan = viewer.part("/retry", dry=1).partition("/retries?plan=")[2].partition('"')[0]
    assert "Spark is gone" in viewer.post(f"/retries?plan={plan}")
    assert "done or forgotten; make another one" in viewer.post(f"/retries?plan={plan}")


def test_a_settings_file_that_is_wrong_says_so(views: Callable[..., Viewer], tmp_path: Path) -> None:
    """It is read for each view."""
    viewer = views()
    (tmp_path / "ingest job.toml").write_text("[ingest]\nfarmat = 1\n")
    assert "farmat" in viewer.part("/job")
    (tmp_path / "ingest job.toml").unlink()
    assert "ingest job.toml" in viewer.part("/retry", dry=1)
