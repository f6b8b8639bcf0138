"""What `tubeclient ingest` prints of a job."""

from __future__ import annotations

import pytest

from tubeclient_cli.ingest.output import Output
from tubeclient_ingest.run import Round
from tubeclient_ingest.stream import LeftBehind


def test_a_round_says_how_many_streams_stay_behind(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=False)
    for stream in ("clicks", "clicks", "views"):
        output(LeftBehind(stream, "no table"))
    output(Round("", 1, 5, 5, 0.5, 10.0, 0))
    assert capsys.readouterr().out.endswith("5 rows in 1 round, 10 rows/s, nothing behind but 2 streams\n")
