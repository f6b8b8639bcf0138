"""`tubeclient server` as a process: ready, stopped by a signal, killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.embedded_tubemq.raw_client import RawClient, http_get
from tubeclient import Admin, ClientSettings, StoreKey
from tubeclient.wire.methods import Method
from tubeclient_cli.app import app

SECONDS = 30
SEND = {"clientId": "p", "topicName": "flights", "partitionId": 0, "flag": 0, "checkSum": -1, "sentAddr": 0}
READER = {"clientId": "c", "groupName": "g", "topicName": "flights", "partitionId": 0}


@contextmanager
def running(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """The process and its ready file; killed at the end if it still runs."""
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "tubeclient_cli.app",
        "server",
        "--data-dir",
        str(folder / "data"),
        "--ready-file",
        str(ready),
    ]
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + SECONDS
        while not ready.exists():
            assert process.poll() is None, process.communicate(timeout=SECONDS)
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process, json.loads(ready.read_text())
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ready_line_ready_file_and_a_clean_stop(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "--topic", "flights:2:3", "--brokers", "2") as (process, addresses):
        first, second = addresses["brokers"]
        assert (first["brokerId"], second["brokerId"]) == (1, 2)
        (topic,) = http_get(addresses["masterWebPort"], "admin_query_topic_info")["data"]
        assert [(one["numTopicStores"], one["numPartitions"]) for one in topic["topicInfo"]] == [(2, 3)] * 2
        with RawClient(second["address"]) as client:
            assert client.call(Method.SEND_MESSAGE, **SEND, data=b"m").success
            client.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0)
            assert len(client.call(Method.GET_MESSAGES, **READER).messages) == 1
            process.send_signal(number)
            with pytest.raises(ConnectionError):
                client.next_frame()
        out, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, err) == (0, "")
        where = f"--master-servers {addresses['master']} --option masterWebPort={addresses['masterWebPort']}"
        assert out.splitlines()[-1] == f"for clients: {where}"
        for word in (addresses["master"], first["address"], second["address"]):
            assert word in out
        assert not (tmp_path / "ready.json").exists()
    # In flight at the stop, so committed by it.
    with running(tmp_path, "--brokers", "2") as (_, addresses), RawClient(addresses["brokers"][1]["address"]) as client:
        assert client.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0).currOffset == 28


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    acknowledged: dict[int, bytes] = {}
    with running(tmp_path, "--topic", "flights") as (process, addresses):
        with RawClient(addresses["brokers"][0]["address"]) as client:
            bodies = [b"message %d " % n * (n % 50 + 1) for n in range(1800)]
            serials = [client.send(Method.SEND_MESSAGE, **SEND, data=body) for body in bodies[:1000]]
            for n, body in enumerate(bodies):
                # Ever more requests are on their way, and the process dies in the midst of them: it is stopped
                # first, so that some requests surely reach a process that answers them no more.
                if n < 700:
                    serials.append(client.send(Method.SEND_MESSAGE, **SEND, data=bodies[n + 1000]))
                if n == 700:
                    os.kill(process.pid, signal.SIGSTOP)
                    serials += [client.send(Method.SEND_MESSAGE, **SEND, data=body) for body in bodies[1700:1800]]
                    os.kill(process.pid, signal.SIGKILL)
                try:
                    answer = client.answer(Method.SEND_MESSAGE, serials[n])
                except ConnectionError:
                    break
                acknowledged[answer.appendOffset] = body
        process.communicate(timeout=SECONDS)
        assert process.returncode == -signal.SIGKILL
    assert 700 <= len(acknowledged) < len(bodies)
    with running(tmp_path) as (_, addresses), RawClient(addresses["brokers"][0]["address"]) as client:
        end = client.call(Method.PARTITION_REGISTER, **READER, opType=31, readStatus=0, currOffset=0).maxOffset
        found: list[bytes] = []
        while len(found) * 28 < end:
            answer = client.call(Method.GET_MESSAGES, **READER, lastPackConsumed=True)
            assert answer.currOffset == len(found) * 28
            found += [message.payLoadData for message in answer.messages]
    # What came last may be there without having been acknowledged; everything else is exactly what was sent.
    assert found == bodies[: len(found)]
    assert all(found[offset // 28] == body for offset, body in acknowledged.items())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--host", ""], "--host is empty"),
        (["--topic", "flights:0"], "flights"),
        (["--topic", "a:b:c"], "name:stores:partitions"),
        (["--brokers", "0"], "broker"),
        (["--ready-file", "/no/such"], "--ready-file /no/such cannot be written"),
    ],
)
def test_mistakes_end_with_2_and_a_word_of_advice(tmp_path: Path, arguments: list[str], says: str) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        done = CliRunner().invoke(app, ["server", "--data-dir", str(tmp_path), *arguments])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("tubeclient server: ")
    assert says in done.stderr


def test_a_port_that_is_taken_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        arguments = ["--data-dir", str(tmp_path), "--master-port", str(taken.getsockname()[1])]
        command = [sys.executable, "-m", "tubeclient_cli.app", "server", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "in use" in done.stderr


def test_an_output_that_nobody_takes_is_no_setting(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tubeclient_cli.app", "server", "--data-dir", str(tmp_path)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    assert done.stderr == "tubeclient server: input or output failed: [Errno 28] No space left on device\n"
    assert done.returncode == 1


def test_sample_messages(tmp_path: Path) -> None:
    """And once: the next start with the same folder adds nothing."""
    for _ in range(2):
        with running(tmp_path, "--topic", "clicks:2:2", "--brokers", "2", "--sample", "100") as (process, addresses):
            settings = ClientSettings((addresses["master"],), master_web_port=addresses["masterWebPort"])
            bounds = Admin(settings).store_bounds(["clicks"])
            assert {key: (end - start) // 28 for key, (start, end) in bounds.items()} == {
                StoreKey(broker, "clicks", store): rows
                for broker, store, rows in ((1, 0, 26), (1, 1, 24), (2, 0, 26), (2, 1, 24))
            }
            process.send_signal(signal.SIGTERM)
            process.wait(SECONDS)
