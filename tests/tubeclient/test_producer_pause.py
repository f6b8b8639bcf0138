"""A producer's process that stood still, as after Ctrl-Z or a laptop's sleep, reads its answers first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.faults import ConnectionFault
from tests.tubeclient.stored import bodies
from tests.waiting import wait_for
from tubeclient import ClientSettings, Producer
from tubeclient.net import outbox
from tubeclient.wire.methods import Method

MESSAGES = 1_000
ANSWER_DELAY_MS = 500
ANSWER_LIMIT_MS = 4_000
_SEND = """
import sys
from tubeclient import ClientSettings, Producer
settings = ClientSettings((sys.argv[1],), rpc_timeout_ms=int(sys.argv[2]))
with Producer(settings, max_in_flight=int(sys.argv[3])) as producer:
    producer.publish(["clicks"])
    for answer in producer.submit_many("clicks", [b"%d" % n for n in range(int(sys.argv[3]))]):
        while not answer.done():
            pass  # a busy program: the answers are read slowly
        answer.result(0)
"""


def test_answers_that_came_during_a_pause_count(cluster: EmbeddedTubeMQ) -> None:
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).answer_delay_ms = ANSWER_DELAY_MS
    arguments = [cluster.master_address, str(ANSWER_LIMIT_MS), str(MESSAGES)]
    sender = subprocess.Popen([sys.executable, "-c", _SEND, *arguments])
    try:
        wait_for(lambda: bool(bodies(cluster)), "the first message")
        sender.send_signal(signal.SIGSTOP)
        for broker_id in cluster.broker_ids:
            cluster.broker_faults(broker_id).answer_delay_ms = 0
        time.sleep(2 * ANSWER_LIMIT_MS / 1000)
        os.kill(sender.pid, signal.SIGCONT)
        assert sender.wait(30) == 0
    finally:
        sender.kill()
        sender.wait(10)
    assert bodies(cluster) == {b"%d" % n: 1 for n in range(MESSAGES)}


def test_a_process_that_is_slow_for_good_gives_up_an_answer(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "_PAUSE_SECONDS", 0.0)  # each look at the clock comes late
    for broker_id in cluster.broker_ids:
        cluster.broker_faults(broker_id).break_connection(Method.SEND_MESSAGE, ConnectionFault.SILENCE)
    with Producer(replace(settings, rpc_timeout_ms=500)) as producer:
        producer.publish(["clicks"])
        producer.submit("clicks", b"one").result(20)
