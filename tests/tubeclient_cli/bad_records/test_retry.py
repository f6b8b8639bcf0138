"""The arguments of `tubeclient bad-records retry`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from typer.testing import CliRunner

from tubeclient_cli.app import app
from tubeclient_cli.common.pairs import SESSION_ZONE

SETTINGS = '[ingest]\nmaster-servers = "h:1"\nconsumer-group = "g"\ntopics = ["t"]\ntarget = "/t"\ncheckpoint = "/c"\n'


def test_settings_without_a_dead_letter_table_are_refused_before_spark_is_started(tmp_path: Path) -> None:
    path = tmp_path / "ingest.toml"
    path.write_text(SETTINGS)
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", str(path)])
    assert result.exit_code == 2
    assert f"{path} has no bad-records in [ingest]" in result.output


def test_sparks_setting_of_the_time_zone_is_not_a_second_way() -> None:
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", "f", "--conf", f"{SESSION_ZONE}=UTC"])
    assert result.exit_code == 2
    assert f"--conf {SESSION_ZONE} has a setting of its own, time-zone" in result.output


def test_spark_that_does_not_start_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_java(*_: object) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr("tubeclient_cli.common.session.make_session", no_java)
    path = tmp_path / "ingest.toml"
    path.write_text(f'{SETTINGS}bad-records = "/b"\n')
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", str(path)])
    assert (result.exit_code, result.stderr.count("\n")) == (3, 1)
    assert result.stderr.startswith("tubeclient bad-records retry: [JAVA_GATEWAY_EXITED]")
