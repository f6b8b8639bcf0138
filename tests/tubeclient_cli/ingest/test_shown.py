"""What a running job tells, and who hears it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import MagicMock, call

import pytest

from tubeclient_cli.ingest.json_events import JsonEvents
from tubeclient_cli.ingest.shown import Shown
from tubeclient_ingest.progress import ProgressFile, Round

ROUND = Round("2026-01-01T00:00:00.000+00:00", 2, 10, 10, 1.0, 10.0, 0)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def tell(shown: Shown) -> None:
    shown.begins("begins at earliest")
    shown.looked(NOW)
    assert not shown.reading
    shown.reads()
    assert shown.reading
    shown.done(ROUND)


def test_programs_get_an_event_for_where_it_begins_and_for_each_round(capsys: pytest.CaptureFixture[str]) -> None:
    tell(Shown(JsonEvents(), None))
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"event": "begin", "text": "begins at earliest"}
    assert (second.pop("event"), Round(**second)) == ("round", ROUND)


def test_people_a_file_and_prometheus_get_all_that_is_theirs(tmp_path: Path) -> None:
    display, metrics = MagicMock(), MagicMock()
    shown = Shown(display, metrics)
    with ProgressFile(tmp_path / "progress.jsonl") as shown.file:
        tell(shown)
    assert display.mock_calls == [call.start("begins at earliest"), call.first(), call.show(ROUND)]
    assert metrics.mock_calls == [call.looked(NOW), call.round_done(ROUND)]
    assert Round(**json.loads((tmp_path / "progress.jsonl").read_text())) == ROUND
