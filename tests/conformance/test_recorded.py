"""The kept recording of Apache's servers is of these servers; and one made now says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apache.java_gateway import JavaVM
from tests.apache.server import ApacheTubeMQ
from tests.conformance.cluster import ApacheCluster
from tests.conformance.topics import RECORDED_ANEW
from tests.recorder.exchanges import Recording
from tests.recorder.recording import record
from tests.recorder.replay import KEPT, embedded, in_real_time, replay

pytestmark = pytest.mark.apache


def test_apaches_servers_still_answer_as_recorded(apache: ApacheTubeMQ) -> None:
    kept = Recording.load(KEPT)
    assert replay(kept, ApacheCluster(apache), in_real_time(kept)) == []


def test_the_embedded_servers_answer_as_apaches_do_now(apache: ApacheTubeMQ, java_vm: JavaVM, tmp_path: Path) -> None:
    recording = record(ApacheCluster(apache), java_vm, RECORDED_ANEW)
    with embedded(recording, tmp_path / "tube") as (tube, wait_until):
        assert replay(recording, tube, wait_until) == []
