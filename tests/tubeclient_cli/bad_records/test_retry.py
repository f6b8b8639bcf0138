"""The arguments of `tubeclient bad-records retry`."""

from __future__ import annotations

import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from typer.testing import CliRunner

from tubeclient_cli.app import app
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.rounds.retrying import Retried

SETTINGS = '[ingest]\nmaster-servers = "h:1"\nconsumer-group = "g"\ntopics = ["t"]\ntarget = "/t"\n'


def test_settings_without_bad_records(tmp_path: Path) -> None:
    """The command refuses settings without a bad-records table before Spark starts."""
    path = tmp_path / "ingest.toml"
    path.write_text(SETTINGS)
    result = CliRunner().invoke(app, ["bad-records", "retry", "--settings", str(path)])
    assert result.exit_code == 2
    assert f"{path} has no bad-records in [ingest]" in result.output


def test_a_dry_run_says_what_would_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str | None, bool]] = []

    def retried(_: Ingest, reason: str | None, *, dry_run: bool) -> Retried:
        asked.append((reason, dry_run))
        return Retried(2, 1, unread=0 if dry_run else 4, without_value=0 if dry_run else 3)

    monkeypatch.setattr("tubeclient_cli.common.session.make_session", lambda *_, **__: MagicMock())
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
        "tried 3 bad records: 2 to be moved to the target, which this dry run did not do, 1 still bad\n"
    )
    assert texts[1] == (
        "tried 3 bad records: 2 moved to the target, 1 still bad; 4 more were not tried, because the source itself "
        "cannot read their messages; 3 more were not tried, because their values were not kept\n"
    )
    assert json.loads(texts[2]) == {"dryRun": True, "moved": 2, "stillBad": 1, "notReadable": 0, "withoutValue": 0}
    assert asked == [(None, True), (None, False), ("x", True)]
