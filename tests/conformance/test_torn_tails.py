"""The embedded server is killed again and again while Java's producer writes: what it acknowledged is still there."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from py4j.protocol import Py4JJavaError

from tests.apache.java_client import JavaClientError, JavaProducer, JavaSent, JavaVM
from tests.apache.jvm import free_ports
from tests.waiting import wait_for
from tubeclient import ClientSettings, OffsetLookup, OffsetRange, RangeReader, fetch_view

TOPIC = "torn"
WRITERS = 3
KILLS = int(os.environ.get("TORN_TAILS_KILLS", "4"))
"""Fifty take some two minutes."""

GROUPS = ("torn-r0",)

pytestmark = [pytest.mark.apache, pytest.mark.timeout(60 + 20 * KILLS)]


class Server:
    """`tubeclient server` in a process of its own, with one partition, always on the same ports."""

    def __init__(self, folder: Path) -> None:
        self._ready = folder / "ready.json"
        master, web, broker = free_ports(3)
        command = ["-m", "tubeclient_cli.app", "server", "--data-dir", str(folder / "data"), "--topic", TOPIC]
        command += ["--master-port", str(master), "--master-web-port", str(web), "--broker-port", str(broker)]
        self._command = [sys.executable, *command, "--ready-file", str(self._ready)]
        self.settings = ClientSettings((f"127.0.0.1:{master}",), master_web_port=web)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._ready.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait_for(self._ready.exists, "the server")
        assert json.loads(self._ready.read_text())["master"] == self.settings.master_servers[0]

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path)
    one.start()
    try:
        yield one
    finally:
        one.kill()


class Written(NamedTuple):
    """What a producer was told, by body."""

    acknowledged: dict[bytes, JavaSent]
    unknown: set[bytes]


def write(producer: JavaProducer, numbers: Iterator[int], stop: threading.Event, written: Written) -> None:
    """Send numbers, one after the other, until `stop` or a failure."""
    with closing(producer):
        while not stop.is_set():
            body = b"%d" % next(numbers) * 50  # longer than what one write of a page always has whole
            written.unknown.add(body)
            try:
                written.acknowledged[body] = producer.send(TOPIC, body)
            except (JavaClientError, Py4JJavaError):
                return
            written.unknown.discard(body)


def stored(settings: ClientSettings) -> dict[int, tuple[int, bytes]]:
    """Message id and body of what the broker holds, by index offset."""
    view = fetch_view(settings, [TOPIC], GROUPS)
    [key] = view.partitions()
    with closing(OffsetLookup(settings, GROUPS)) as lookup:
        bounds = lookup.bounds(view)[key.store]
    found = {}
    with RangeReader(settings, GROUPS) as reader:
        for pack in reader.read(view.broker_of(key), OffsetRange(key, bounds.min_offset, bounds.max_offset)):
            assert len(pack) == (pack.end - pack.start) // 28
            for number, message in enumerate(pack):
                found[pack.start + 28 * number] = message.message_id, message.body
    return found


def test_kills_lose_no_acknowledged_message(server: Server, java_vm: JavaVM) -> None:
    """The server loses and doubles no acknowledged message if it is killed again and again."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}, {KILLS} kills")
    rng, numbers, written = random.Random(seed), itertools.count(), Written({}, set())
    for kill in range(KILLS):
        stop, before = threading.Event(), len(written.acknowledged)
        master = server.settings.master_servers[0]
        producers = [JavaProducer(java_vm, master).publish([TOPIC]) for _ in range(WRITERS)]
        writers = [threading.Thread(target=write, args=(one, numbers, stop, written)) for one in producers]
        for writer in writers:
            writer.start()
        wait_for(lambda: len(written.acknowledged) > before, "the first acknowledgement", seconds=20)  # noqa: B023
        time.sleep(rng.uniform(0, 0.3))
        server.kill()
        stop.set()
        for writer in writers:
            writer.join(30)
            assert not writer.is_alive()
        server.start()
        held = stored(server.settings)
        for body, sent in written.acknowledged.items():
            assert held.get(sent.append_offset) == (sent.message_id, body), f"kill {kill}"
        bodies = [body for _, body in held.values()]
        assert len({message_id for message_id, _ in held.values()}) == len(held)
        assert len(set(bodies)) == len(bodies)
        assert set(bodies) - written.acknowledged.keys() <= written.unknown
    print(f"{len(written.acknowledged)} acknowledged, {len(written.unknown)} unknown, {len(held)} stored")
