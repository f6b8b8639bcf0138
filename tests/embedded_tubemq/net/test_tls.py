"""Ports for TLS beside the plain ones, and who is told of which."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, ServerTls, TopicConfig
from embedded_tubemq.common.peer import Peer
from tests.certificates import Certificate, CertificateAuthority
from tests.embedded_tubemq.machines import FakeMaster
from tubeclient.errors import ConfigurationError
from tubeclient.wire.methods import Method

GROUP = {"groupName": "g", "topicList": ["flights"], "hostName": "h", "sourceCount": 1, "nodeId": 0}


@pytest.fixture
def secured(tmp_path: Path, server_certificate: Certificate) -> Iterator[EmbeddedTubeMQ]:
    tls = ServerTls(server_certificate.certificate_file, server_certificate.key_file)
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("flights")], brokers=2, tls=tls) as running:
        yield running


def test_who_comes_over_tls_is_told_the_ports_for_tls(master: FakeMaster) -> None:
    for tls, expected in ((False, ["1:127.0.0.1:8123"]), (True, ["1:127.0.0.1:8124"])):
        master.peer = Peer("127.0.0.1:5", tls)
        assert list(master.join().brokerConfigList) == expected
        assert list(master.heartbeat().brokerConfigList) == expected
        metadata = {"clientId": "c0", "groupName": "g", "brokerConfigId": -2, "topicMetaInfoId": -2}
        assert list(master.call(Method.PARTITION_METADATA, **metadata).brokerConfigList) == expected
        producer = {"clientId": "p", "hostName": "h", "brokerCheckSum": -1}
        assert list(master.call(Method.PRODUCER_REGISTER, **producer).brokerInfos) == expected
        assert list(master.call(Method.PRODUCER_HEARTBEAT, **producer).brokerInfos) == expected


def test_a_stop_does_not_wait_for_a_handshake(tmp_path: Path, server_certificate: Certificate) -> None:
    tls = ServerTls(server_certificate.certificate_file, server_certificate.key_file)
    running = EmbeddedTubeMQ(tmp_path / "tube", tls=tls).start()
    host, port = running.master_tls_address.split(":")
    with socket.create_connection((host, int(port)), 10):  # says nothing
        stopping = threading.Thread(target=running.stop)
        stopping.start()
        stopping.join(20)
        assert not stopping.is_alive()


def test_files_that_are_no_good(
    tmp_path: Path, server_certificate: Certificate, authority: CertificateAuthority
) -> None:
    file, key = server_certificate.certificate_file, server_certificate.key_file
    locked = authority.issue("locked", password="word")
    for tls, text in (
        (ServerTls(str(tmp_path / "missing.pem")), r"missing\.pem"),
        (ServerTls(file), "cannot be used"),
        (ServerTls(file, locked.key_file), "encrypted"),
        (ServerTls(file, key, str(tmp_path / "ca")), "ca cannot"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            EmbeddedTubeMQ(tmp_path / "tube", tls=tls).start()
