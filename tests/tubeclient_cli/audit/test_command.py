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

from tests.tubeclient.inlong_audit import Row, audit_service
from tubeclient_cli.app import app

TEN = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=12)
MINUTE = timedelta(minutes=1)
COLUMNS = pa.schema(
    [("inlongGroupId", pa.string()), ("stream", pa.string()), ("minute", pa.timestamp("us", "UTC"))]
    + [(name, pa.int64()) for name in ("received", "written", "bad", "sequence")]
    + [("runId", pa.string()), ("time", pa.timestamp("us", "UTC"))]
)


def row(minute: datetime | None, written: int, bad: int = 0, *, sequence: int, **more: Any) -> dict[str, Any]:
    """A row of the counts table, of a commit an hour later."""
    time = TEN + timedelta(hours=sequence)
    given = {"inlongGroupId": "shop", "stream": "clicks", "minute": minute, "received": written + bad}
    return {**given, "written": written, "bad": bad, "sequence": sequence, "runId": "r", "time": time, **more}


# The job began an hour before, and reads until four hours later.
FIRST, LAST = row(TEN - 60 * MINUTE, 1, sequence=1), row(TEN + 240 * MINUTE, 1, sequence=9)
ROWS = [FIRST, row(TEN, 7, 2, sequence=2), row(TEN + MINUTE, 1, sequence=2), row(TEN, 5, sequence=3), LAST]
# DataProxy sent nine and five, and one.
SENT = {TEN - 60 * MINUTE: 1, TEN: 14, TEN + MINUTE: 1, TEN + 240 * MINUTE: 1}
COMPLETE = ("complete", 0)


def sent(minutes: dict[datetime, int], stream: str = "clicks", version: int = -1) -> list[Row]:
    """What DataProxy reported."""
    return [
        Row(version, "1", 0, 1, int(at.timestamp() * 1000), "shop", stream, "6", "-1", number, 0)
        for at, number in minutes.items()
    ]


def run(table: Path | str, *more: str) -> Result:
    return CliRunner().invoke(app, ["audit", "--counts", str(table), *more])


def states(result: Result) -> dict[tuple[str, int], tuple[str, int]]:
    """By stream, and hours from ten."""
    hours = json.loads(result.stdout)["hours"]
    return {
        (one["stream"], (datetime.fromisoformat(one["hour"]) - TEN) // (60 * MINUTE)): (one["state"], one["missing"])
        for one in hours
    }


def append(table: Path, *rows: dict[str, Any]) -> None:
    write_deltalake(table, pa.Table.from_pylist(list(rows), COLUMNS), mode="append")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "counts", pa.Table.from_pylist(ROWS, COLUMNS))
    return tmp_path / "counts"


def test_all_that_dataproxy_sent_is_there(table: Path) -> None:
    with audit_service(sent(SENT)) as (url, seen):
        result = run(table, "--audit", url, "--since", f"{TEN - timedelta(hours=12):%Y-%m-%dT%H:%MZ}")
    assert result.exit_code == 0, result.output
    assert (
        f"{TEN.isoformat(timespec='minutes')}     15         15        13     2         0   complete" in result.stdout
    )
    since, until = (f"{TEN + timedelta(hours=hours):%Y-%m-%d%%20%H%%3A00%%3A00}" for hours in (-12, -6))
    assert f"startTime={since}&endTime={until}" in seen[0]


def test_without_audit_only_the_table_is_judged(table: Path) -> None:
    result = run(table)
    assert result.exit_code == 0, result.output
    assert "sent" not in result.stdout
    append(table, row(TEN, 1, received=3, sequence=10))
    result = run(table)
    assert (result.exit_code, "2 records of group shop are missing" in result.stderr) == (1, True)


def test_missing_and_edge_hours(table: Path) -> None:
    """The verdict separates missing records from hours at the edge of what the job read."""
    with audit_service(sent({at: number + 1 for at, number in SENT.items()})) as (url, _):
        result = run(table, "--audit", url, "--json")
        text = run(table, "--audit", url)
    assert result.exit_code == text.exit_code == 1
    assert states(result) == {("clicks", -1): ("edge", 1), ("clicks", 0): ("missing", 2), ("clicks", 4): ("edge", 1)}
    assert json.loads(result.stdout)["allThere"] is False
    assert "2 records of group shop are missing" in text.stderr


def test_a_clock_that_is_ahead_closes_no_hour(table: Path) -> None:
    append(table, row(TEN + timedelta(days=900), 1, sequence=9))
    with audit_service(sent({at: number + 1 for at, number in SENT.items()})) as (url, _):
        assert states(run(table, "--audit", url, "--json"))["clicks", 4] == ("edge", 1)


def test_late_bad_records(table: Path) -> None:
    """Bad records that were written later raise no alarm."""
    append(table, row(TEN, 2, -2, sequence=4))
    with audit_service(sent(SENT)) as (url, _):
        result = run(table, "--audit", url, "--json")
    assert result.exit_code == 0, result.output
    assert [(one["written"], one["bad"]) for one in json.loads(result.stdout)["hours"]] == [(1, 0), (15, 0), (1, 0)]


def test_streams_that_the_table_lacks_are_the_rest(table: Path, tmp_path: Path) -> None:
    # Of all streams, Audit sees but those of a minute's highest version.
    reported = sent(SENT) + sent({TEN: 3}, "views") + sent({TEN + MINUTE: 1}, version=-2)
    settings = tmp_path / "ingest.toml"
    job = {"master-servers": "h:1", "consumer-group": "g", "inlong-group": "shop", "target": f"{tmp_path}/{{stream}}"}
    settings.write_text("[ingest]\n" + "".join(f'{name} = "{value}"\n' for name, value in job.items()))
    with audit_service(reported) as (url, _):
        result = run(table, "--audit", url, "--json")
        assert states(result)["_rest", 0] == ("missing", 3)
        append(table, row(TEN, 3, sequence=3, stream="_rest"))
        assert states(run(table, "--audit", url, "--json"))["_rest", 0] == COMPLETE
        settings.write_text(settings.read_text() + 'streams = ["clicks"]\n')
        chosen = run(table, "--audit", url, "--json", "--settings", str(settings))
    assert result.exit_code == 1
    assert set(states(chosen).values()) == {COMPLETE}


def test_audits_clock_has_a_zone(table: Path) -> None:
    rows = sent(SENT)
    with audit_service(rows, "Asia/Shanghai") as (url, _):
        right = run(table, "--audit", url, "--time-zone", "Asia/Shanghai", "--json")
    with audit_service(rows, "Pacific/Kiritimati") as (url, _):
        wrong = run(table, "--audit", url, "--time-zone", "Pacific/Pago_Pago", "--json")
    assert set(states(right).values()) == {COMPLETE}
    assert len(states(right)) == 3
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout)["allThere"] is False
    assert "Audit has nothing for group shop since" in wrong.stderr


@pytest.mark.parametrize(
    ("url", "code", "said"),
    [
        ("http://u:geheim@h:1", 2, "address of InLong's Audit must look like http://host:10080"),
        ("http://h:99999999", 2, "address of InLong's Audit must look like http://host:10080"),
        ("ftp://h", 2, "address of InLong's Audit must look like http://host:10080"),
        ("127.0.0.1:9", 3, "http://127.0.0.1:9 did not answer"),
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
        (b"<html>Login</html>", 3, "without counts; check host and port: <html>Login"),
        (b"[1]", 3, "without counts"),
        (b"{}", 3, "without counts"),
        (b'{"success": true, "data": [{"lo', 3, "without counts"),
        (b'{"success": false, "errMsg": "Invalid params! x", "data": []}', 3, "Invalid params! x"),
        (b'{"success": false, "errMsg": "", "data": []}', 3, "without counts"),
        (b'{"success": true, "data": [{"logTs": "x", "count": 1}]}', 3, "without counts"),
        (b'{"success": true, "data": ["x"]}', 3, "without counts"),
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
    settings = tmp_path / "ingest.toml"
    begin = '[ingest]\nmaster-servers = "h:1"\nconsumer-group = "g"\n'
    for text, code, said in (
        ('topics = ["t"]\ntarget = "/t"\n', 2, "--settings of a job with inlong-group"),
        (
            'inlong-group = "shop"\ntarget = "main.logs.{stream}"\n',
            2,
            "main.logs._counts is a name that only Spark knows",
        ),
    ):
        settings.write_text(begin + text)
        result = CliRunner().invoke(app, ["audit", "--settings", str(settings)])
        assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert run(table, "--settings", str(settings)).exit_code == 0  # another place for a name
    append(table, row(TEN, 1, sequence=1, inlongGroupId="o'shop"))
    for result, code, said in (
        (run(tmp_path / "other"), 3, "as a counts table: Schema error: No field named"),
        (run(tmp_path / "none"), 3, "as a counts table"),
        (run(tmp_path / "file"), 3, "as a counts table"),
        (run("main.logs._counts"), 2, "is a name that only Spark knows"),
        (run(table), 2, "has o'shop, shop; give --settings"),
        (run(table, "--since", "yesterday"), 2, "--since is 'yesterday'"),
        (run(table, "--time-zone", "Mars"), 2, "is not a time zone"),
        (CliRunner().invoke(app, ["audit"]), 2, "audit needs the --settings"),
    ):
        assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
        assert len(result.stderr.splitlines()) == 1
