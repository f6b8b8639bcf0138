"""`tubeclient audit` on a counts table, with a service that answers as InLong's does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from tests.tubeclient.inlong_audit import Row, audit_proxy, audit_service
from tubeclient_cli.app import app
from tubeclient_ingest.inlong_audit import AuditReporter

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
COLUMNS = pa.schema(
    [("inlongGroupId", pa.string()), ("inlongStreamId", pa.string()), ("minute", pa.timestamp("us", "UTC"))]
    + [(name, pa.int64()) for name in ("received", "written", "bad", "sequence")]
    + [("runId", pa.string()), ("time", pa.timestamp("us", "UTC"))]
)
SPAN = ("--since", "2026-11-21T08:00Z", "--until", "2026-11-21T16:00Z")


def row(minute: datetime | None, written: int, bad: int = 0, *, sequence: int, **more: Any) -> dict[str, Any]:
    """A row of the counts table, of a commit an hour later."""
    time = TEN + timedelta(hours=sequence)
    given = {"inlongGroupId": "shop", "inlongStreamId": "clicks", "minute": minute, "received": written + bad}
    return {**given, "written": written, "bad": bad, "sequence": sequence, "runId": "r", "time": time, **more}


# The job began at nine, and reads until two.
FIRST, LAST = row(TEN - 60 * MINUTE, 1, sequence=1), row(TEN + 240 * MINUTE, 1, sequence=9)
ROWS = [FIRST, row(TEN, 7, 2, sequence=2), row(TEN + MINUTE, 1, sequence=2), row(TEN, 5, sequence=3), LAST]
# DataProxy sent nine and five, and one.
SENT = {TEN - 60 * MINUTE: 1, TEN: 14, TEN + MINUTE: 1, TEN + 240 * MINUTE: 1}


def sent(minutes: dict[datetime, int], stream: str = "clicks", version: int = -1) -> list[Row]:
    """What DataProxy reported."""
    return [
        Row(version, "10.0.0.7", "", "1", 0, 1, int(at.timestamp() * 1000), "shop", stream, "6", "-1", number, 0, 0)
        for at, number in minutes.items()
    ]


def run(table: Path | str, *more: str, group: str = "shop") -> Result:
    return CliRunner().invoke(app, ["audit", "--counts", str(table), "--group", group, *SPAN, *more])


def states(result: Result) -> dict[tuple[str, str], tuple[str, int]]:
    hours = json.loads(result.stdout)["hours"]
    return {(one["stream"], one["hour"][11:13]): (one["state"], one["missing"]) for one in hours}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "counts", pa.Table.from_pylist(ROWS, COLUMNS))
    return tmp_path / "counts"


def test_all_that_dataproxy_sent_is_there(table: Path) -> None:
    with audit_service(sent(SENT)) as (url, seen):
        result = run(table, "--audit", url)
    assert result.exit_code == 0, result.output
    assert "2026-11-21T10:00+00:00     15         15        13     2         0   complete" in result.stdout
    assert "startTime=2026-11-21%2008%3A00%3A00&endTime=2026-11-21%2014%3A00%3A00" in seen[0]


def test_without_audit_only_the_table_is_judged(table: Path) -> None:
    result = run(table)
    assert result.exit_code == 0, result.output
    assert "missing" not in result.stdout
    write_deltalake(table, pa.Table.from_pylist([row(TEN, 1, received=3, sequence=10)], COLUMNS), mode="append")
    result = run(table)
    assert result.exit_code == 1
    assert "1 line where received are not as many as written and bad" in result.stderr


def test_what_is_missing_is_told_apart_from_open_hours_and_the_first_round(table: Path) -> None:
    more = {at: number + 1 for at, number in SENT.items()}
    with audit_service(sent(more)) as (url, _):
        result = run(table, "--audit", url, "--json")
        text = run(table, "--audit", url)
    assert result.exit_code == text.exit_code == 1
    assert states(result) == {
        ("clicks", "09"): ("first", 1),
        ("clicks", "10"): ("missing", 2),
        ("clicks", "14"): ("open", 1),
    }
    assert json.loads(result.stdout)["allThere"] is False
    assert "2 records of 1 stream" in text.stderr


def test_bad_records_that_were_written_later_are_no_alarm(table: Path) -> None:
    corrections = [row(TEN, 2, -2, sequence=4)]
    write_deltalake(table, pa.Table.from_pylist(corrections, COLUMNS), mode="append")
    with audit_service(sent(SENT)) as (url, _):
        result = run(table, "--audit", url, "--json")
    assert result.exit_code == 0, result.output
    assert [(one["written"], one["bad"]) for one in json.loads(result.stdout)["hours"]] == [(1, 0), (15, 0), (1, 0)]


def test_a_stream_that_never_arrived_is_missing(table: Path) -> None:
    with audit_service(sent(SENT) + sent({TEN: 3}, "views")) as (url, _):
        result = run(table, "--audit", url, "--json")
        alone = run(table, "--audit", url, "--json", "--stream", "clicks")
    assert states(result)["*", "10"] == ("missing", 3)
    assert (result.exit_code, alone.exit_code) == (1, 0)


def test_audits_clock_has_a_zone(table: Path) -> None:
    with audit_service(sent(SENT), "Asia/Shanghai") as (url, _):
        right = run(table, "--audit", url, "--time-zone", "Asia/Shanghai", "--json")
        wrong = run(table, "--audit", url)
    assert set(states(right).values()) == {("complete", 0)}
    assert len(states(right)) == 3
    assert wrong.exit_code == 1
    assert "Audit has nothing of the group shop in this time; check --group and --time-zone" in wrong.stderr


def test_what_the_job_reports_is_what_audit_answers(table: Path) -> None:
    """Both ways: the rows of the table, reported twice, are what the table says."""
    rows: list[Row] = []
    with audit_proxy(rows, []) as port:
        for _ in range(2):
            AuditReporter(f"127.0.0.1:{port}").report([tuple(one.values()) for one in ROWS])
    received = [one._replace(audit_id="6") for one in rows if one.audit_id == "33"]
    with audit_service(received) as (url, _):
        result = run(table, "--audit", url, "--json")
    assert result.exit_code == 0, result.output
    assert [(one["sent"], one["received"]) for one in json.loads(result.stdout)["hours"]] == [(1, 1), (15, 15), (1, 1)]


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("audit:10080", 2, "is not a URL"),
        ("http://u:geheim@h:1", 2, "is not a URL"),
        ("http://h:99999999", 2, "is not a URL"),
        ("ftp://h", 2, "is not a URL"),
        ("http://127.0.0.1:9", 3, "http://127.0.0.1:9 did not answer"),
    ],
)
def test_addresses_that_are_not_audits(table: Path, url: str, code: int, said: str) -> None:
    result = run(table, "--audit", url)
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert "geheim" not in result.output


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        (b"<html>Login</html>", 2, "is not InLong's audit-service"),
        (b"[1]", 2, "is not InLong's audit-service"),
        (b"{}", 2, "is not InLong's audit-service"),
        (b'{"success": true, "data": [{"lo', 3, "JSON that is cut off"),
        (b'{"success": false, "errMsg": "Invalid params! x", "data": []}', 3, "refuses the query: Invalid params! x"),
        (b'{"success": true, "data": [{"logTs": "x", "count": 1}]}', 3, "without a time or number"),
        (b'{"success": true, "data": ["x"]}', 3, "without a time or number"),
        (b'{"success": true, "data": null}', 1, "Audit has nothing"),
    ],
)
def test_answers_that_are_not_audits(table: Path, body: bytes, code: int, said: str) -> None:
    with audit_service([], body=body) as (url, _):
        result = run(table, "--audit", url)
    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr


def test_tables_groups_and_times_that_are_none(table: Path, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "other", pa.table({"inlongGroupId": ["shop"]}))
    (tmp_path / "file").touch()
    other = row(TEN, 1, sequence=1, inlongGroupId="o'shop")
    write_deltalake(table, pa.Table.from_pylist([other], COLUMNS), mode="append")
    assert run(table, group="o'shop").exit_code == 0
    settings = tmp_path / "ingest.toml"
    settings.write_text('[ingest]\nmaster-servers = "h:1"\nconsumer-group = "g"\ntopics = ["t"]\ntarget = "/t"\n')
    for result, code, said in (
        (CliRunner().invoke(app, ["audit", "--settings", str(settings)]), 2, "audit needs --counts and --group"),
        (run(tmp_path / "other"), 2, "is no counts table: it lacks inlongStreamId"),
        (run(tmp_path / "none"), 2, "there is no Delta table"),
        (run(tmp_path / "file"), 3, "could not read the counts table"),
        (run("main.logs._counts"), 2, "which Spark alone can look up"),
        (run(table, group="shpo"), 2, "did you mean shop?"),
        (run(table, group="o'neill"), 2, "it has o'shop, shop"),
        (run(table, "--stream", "click"), 2, "did you mean clicks?"),
        (run(table, "--since", "yesterday"), 2, "--since is 'yesterday'"),
        (run(table, "--since", "2026-11-21T17:00Z"), 2, "--since is not before --until"),
        (run(table, "--time-zone", "Mars"), 2, "is not a time zone"),
        (CliRunner().invoke(app, ["audit", "--group", "shop"]), 2, "audit needs --counts and --group"),
    ):
        assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
        assert len(result.stderr.splitlines()) == 1
