"""The arguments of `tubeclient bad-records retry`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tubeclient_cli.app import app
from tubeclient_cli.common.pairs import SESSION_ZONE


def test_settings_without_a_dead_letter_table_are_refused_before_spark_is_started(tmp_path: Path) -> None:
    path = tmp_path / "ingest.toml"
    text = 'master-servers = "h:1"\nconsumer-group = "g"\ntopics = ["t"]\ntarget = "/t"\ncheckpoint = "/c"\n'
    path.write_text(f"[ingest]\n{text}")
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", str(path)])
    assert result.exit_code == 2
    assert f"{path} has no bad-records in [ingest]" in result.output


def test_sparks_setting_of_the_time_zone_is_not_a_second_way() -> None:
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", "f", "--conf", f"{SESSION_ZONE}=UTC"])
    assert result.exit_code == 2
    assert f"--conf {SESSION_ZONE} has a setting of its own, time-zone" in result.output
