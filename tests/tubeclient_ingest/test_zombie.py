"""A driver that stands still past its lease, is replaced, and goes on."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ
from tests.exactly_once.processes import marked, send_signal
from tests.tubeclient_cli.ingest.command import START_SECONDS, hold_next_round, ingest, started

pytestmark = pytest.mark.spark


def test_paused_driver(tube: EmbeddedTubeMQ, tmp_path: Path) -> None:
    """A paused driver that another run replaces writes nothing when it goes on."""
    with started(tube, tmp_path, rounds=3) as zombie:
        hold_next_round(tube)
        # Driver, JVM and Python workers: none of them says anything any more, nor lets go of anything.
        stopped = [process for process in marked(zombie.mark) if send_signal(process, signal.SIGSTOP)]
        tube.broker_faults().answer_delay_ms = 0
        tube.restart_master()  # which knows nothing of the group's consumers, as after their lease
        successor = ingest(tube, tmp_path, trigger="available-now")
        try:
            assert successor.wait(START_SECONDS) == 0, successor.tail()
        finally:
            successor.kill()
            for process in stopped:
                send_signal(process, signal.SIGCONT)
        assert zombie.wait(START_SECONDS) == 1, zombie.tail()
    values = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().column("value").to_pylist()
    assert Counter(map(int, values)) == Counter(range(60))
    assert "another run of group clicks_etl wrote commit " in zombie.log.read_text()
