"""The arguments of `tubeclient bad-records retry`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkRuntimeError
from typer.testing import CliRunner

from spark_source.session_confs import SESSION_ZONE
from spark_source.spark_log import SparkLog
from tubeclient_cli.app import app
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.writing import Retried

SETTINGS = '[ingest]\nmaster-servers = "h:1"\nconsumer-group = "g"\ntopics = ["t"]\ntarget = "/t"\n'


def test_settings_without_a_table_of_bad_records_are_refused_before_spark_is_started(tmp_path: Path) -> None:
    path = tmp_path / "ingest.toml"
    path.write_text(SETTINGS)
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", str(path)])
    assert result.exit_code == 2
    assert f"{path} has no bad-records in [ingest]" in result.output


def test_a_dry_run_says_what_would_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str | None, bool]] = []

    def retried(_: Ingest, reason: str | None, *, dry_run: bool) -> Retried:
        asked.append((reason, dry_run))
        return Retried(2, 1, unread=0 if dry_run else 4)

    monkeypatch.setattr("tubeclient_cli.common.session.make_session", lambda *_: MagicMock())
    monkeypatch.setattr("tubeclient_cli.common.session.end_session", lambda _: None)
    monkeypatch.setattr(Ingest, "retry", retried)
    path = tmp_path / "ingest.toml"
    path.write_text(f'{SETTINGS}bad-records = "/b"\n')
    command = ["bad-records", "retry", "--settings", str(path)]
    texts = [
        CliRunner().invoke(app, [*command, *more]).stdout
        for more in (["--dry-run"], [], ["--dry-run", "--json", "--reason", "x"])
    ]
    assert texts[0] == (
        "3 bad records were tried: 2 would be moved to the target, if this were no dry run, 1 are still bad\n"
    )
    assert texts[1] == (
        "3 bad records were tried: 2 were moved to the target, 1 are still bad; 4 more were not tried, as the source"
        " itself cannot read their messages\n"
    )
    assert json.loads(texts[2]) == {"dryRun": True, "moved": 2, "stillBad": 1, "notReadable": 0}
    assert asked == [(None, True), (None, False), ("x", True)]


def test_sparks_setting_of_the_time_zone_is_not_a_second_way() -> None:
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", "f", "--conf", f"{SESSION_ZONE}=UTC"])
    assert result.exit_code == 2
    assert f"--conf {SESSION_ZONE} has a setting of its own, time-zone" in result.output


def test_spark_that_does_not_start_is_one_line_and_its_output_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java(_name: str, _master: object, _confs: object, log: SparkLog) -> None:
        os.write(log.fileno(), b"JAVA_HOME is not set\n")
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("tubeclient_cli.common.session.make_session", no_java)
    path = tmp_path / "ingest.toml"
    path.write_text(f'{SETTINGS}bad-records = "/b"\n')
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", str(path)])
    assert (result.exit_code, result.stdout) == (3, ""), result
    _, where, last = result.stderr.splitlines()
    assert last.startswith("tubeclient bad-records retry: [JAVA_NOT_USABLE] there is no Java.")
    Path(where.removeprefix("Spark's output is in ")).unlink()
