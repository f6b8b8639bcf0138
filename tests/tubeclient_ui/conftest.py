"""A cluster with a little of everything."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.tubeclient_ui.viewer import Viewer, settings_of
from tubeclient import Admin, ClientSettings, PartitionKey, Producer
from tubeclient.inlong import RecordGroup, encode_pack

HOSTILE = (
    b"<script>document.title = 'owned'</script>",
    b"<img src=x onerror=\"document.title='owned'\">",
    b"\"'><svg onload=document.title='owned'>",
    b"{{ 7 * 7 }}${7*7}</pre></li><iframe src=javascript:alert(1)>",
    b'{"html": "</script><script>document.title=1</script>"}',
    b"\xff\xfe\x00\x1b[31mred\x07" + "\u202egpj.exe\u2066\u200f".encode(),
    b"x" * 900_000,
    b'{"deep": ' + b"[" * 5_000,
)
"""Messages of somebody who does not mean well."""


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """`clicks` with ten messages of two hours and tags, `shop` with packs, `hostile`, and `views` in shared stores."""
    topics = [TopicConfig("clicks"), TopicConfig("shop"), TopicConfig("hostile"), TopicConfig("views", 2, 2)]
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube"), topics) as running:
        settings = settings_of(running)
        with Producer(settings) as producer:
            producer.publish([topic.name for topic in topics])
            for number in range(10):
                click = {"id": number, "user": {"id": number % 3, "card": f"411111111111{number:04}"}}
                tag, time = ("even", "odd")[number % 2], f"20261123{10 + number // 5}00"
                attributes = {"n": str(number), "password": "hunter2"}
                producer.send("clicks", json.dumps(click).encode(), tag=tag, time=time, attributes=attributes)
            origin = {"groupId": "shop", "streamId": "orders", "dt": "1796040000000"}
            for _ in range(3):
                producer.send("shop", encode_pack([RecordGroup(origin, [b"a|1", b"b|2", b"card=4111&c=3"])], made_ms=1))
            for body in HOSTILE:
                producer.send("hostile", body, tag="<b>tag</b>", attributes={"<i>": "</dl><script>"})
            for number in range(12):
                producer.send("views", b"view %d" % number, time=f"2026112310{number:02}")
        Admin(settings).set_offsets("reads", {PartitionKey(1, "clicks", 0): 112})
        yield running


@pytest.fixture
def hung() -> Iterator[ClientSettings]:
    """Of a cluster whose master takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        taken: list[socket.socket] = []

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listening.accept()[0])

        threading.Thread(target=take, daemon=True).start()
        port = listening.getsockname()[1]
        yield ClientSettings(f"127.0.0.1:{port}", master_web_port=port, http_timeout_ms=300, rpc_timeout_ms=300)
        listening.shutdown(socket.SHUT_RDWR)
        for each in taken:
            each.close()


@pytest.fixture
def viewer(tube: EmbeddedTubeMQ) -> Viewer:
    return Viewer(settings_of(tube))
