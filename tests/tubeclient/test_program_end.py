"""Programs that end without closing their clients: messages are delivered, nodes are given back, and it is said."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from embedded_tubemq.broker.offsets import Cursor
from embedded_tubemq.cluster import EmbeddedTubeMQ
from tests.ports import held_port
from tests.tubeclient.stored import bodies
from tests.waiting import group_page

ROOT = Path(__file__).parents[2]

HEAD = """
import atexit, multiprocessing, os, sys, threading, time
from tubeclient import *
settings = ClientSettings("{masters}", master_web_port={web_port}, rpc_timeout_ms=2_000)
def producing():
    producer = Producer(settings)
    producer.publish(["single"])
    return producer
def submit(producer, count):
    return producer.submit_many("single", [b"%d" % number for number in range(count)])
"""


def run(cluster: EmbeddedTubeMQ, code: str) -> subprocess.CompletedProcess[str]:
    """The end of a program with this code, which has `settings`, `producing` and `submit`."""
    head = HEAD.format(masters=cluster.master_address, web_port=cluster.master_web_port)
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", head + code],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


def stored(cluster: EmbeddedTubeMQ) -> list[bytes]:
    return list(bodies(cluster, "single").elements())


@pytest.mark.parametrize(
    ("end", "code"),
    [("", 0), ("raise ValueError('of the program')", 1), ("del producer, sent", 0)],
    ids=["end", "exception", "del"],
)
def test_unclosed_producer(cluster: EmbeddedTubeMQ, end: str, code: int) -> None:
    """A program that ends first delivers what its producer took."""
    ended = run(cluster, f"producer = producing()\nsent = submit(producer, 900)\n{end}\n")
    assert ended.returncode == code, ended.stderr
    assert sorted(map(int, stored(cluster))) == [*range(900)]
    assert "a Producer was not closed before the program ended" in ended.stderr
    assert "gave up" not in ended.stderr


def test_forked_child(cluster: EmbeddedTubeMQ) -> None:
    """A child delivers its own messages and leaves its parent's clients alone."""
    code = """
def child():
    PullConsumer(settings, "etl", ["clicks"]).start()
    submit(producing(), 100)
def work():
    context = multiprocessing.get_context("fork")
    one = context.Process(target=child)
    one.start()
    one.join()
producer = producing()
work()
producer.send("single", b"parent")
producer.close()
"""
    ended = run(cluster, code)
    assert ended.returncode == 0, ended.stderr
    assert len(stored(cluster)) == 101
    assert group_page(cluster.master_web_port, "etl") == {}


@pytest.mark.parametrize(
    "made",
    [
        'PullConsumer(settings, "etl", ["clicks"])',
        'ClientBalanceConsumer(settings, "etl", ["clicks"], source_count=1, node_id=0)',
    ],
    ids=["fixed", "balance"],
)
def test_unclosed_consumer(cluster: EmbeddedTubeMQ, made: str) -> None:
    """A consumer gives its node back when the program ends."""
    code = f"""
consumer = {made}.start()
if isinstance(consumer, PullConsumer):
    assert consumer.wait_ready(20_000)
"""
    for _ in range(2):  # the second run is not refused
        ended = run(cluster, code)
        assert ended.returncode == 0, ended.stderr
        assert "not closed before" in ended.stderr
        assert group_page(cluster.master_web_port, "etl") == {}
        assert cluster.inspect(lambda broker: broker.ownership.owner(Cursor("etl", "clicks", 0))) is None


def test_undeliverable_messages(cluster: EmbeddedTubeMQ) -> None:
    """The program reports messages that it cannot deliver and ends in bounded time."""
    head = HEAD.format(masters=cluster.master_address, web_port=cluster.master_web_port)
    code = """
producer = producing()
print("ready", flush=True)
sys.stdin.read()
submit(producer, 70)
"""
    with subprocess.Popen(
        [sys.executable, "-c", head + code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        ports = [int(place.rpartition(":")[2]) for place in cluster.broker_addresses.values()]
        cluster.stop()
        began = time.monotonic()
        with contextlib.ExitStack() as held:
            for port in ports:  # or a broker of another test may get it, and acknowledge a message
                held.enter_context(held_port(port))
            _, told = program.communicate(timeout=120)
        assert program.returncode == 0, told
        assert time.monotonic() - began < 60
    assert "gave up on 70 messages to topic single" in told


@pytest.mark.parametrize(
    "code",
    [
        """
consumer = PullConsumer(settings, "etl", ["clicks"], on_revoked=lambda *_: time.sleep(300)).start()
assert consumer.wait_ready(20_000)
""",
        """
def work():
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        producer = producing()
threading.Thread(target=work).start()
""",
    ],
    ids=["a callback", "a child of a thread"],
)
def test_nothing_keeps_a_program_from_its_end(cluster: EmbeddedTubeMQ, code: str) -> None:
    assert run(cluster, code).returncode == 0
