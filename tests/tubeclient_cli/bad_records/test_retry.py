"""The arguments of `tubeclient bad-records retry`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tubeclient_cli.app import app


def test_settings_without_a_dead_letter_table_are_refused_before_spark_is_started(tmp_path: Path) -> None:
    path = tmp_path / "ingest.toml"
    text = 'master-servers = "h:1"\nconsumer-group = "g"\ntopics = ["t"]\ntarget = "/t"\ncheckpoint = "/c"\n'
    path.write_text(f"[ingest]\n{text}")
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", str(path)])
    assert result.exit_code == 2
    assert f"{path} has no bad-records in [ingest]" in result.output
