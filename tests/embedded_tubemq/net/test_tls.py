"""Ports for TLS beside the plain ones, and who is told of which."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, ServerTls, TopicConfig
from embedded_tubemq.common.peer import Peer
from tests.certificates import Certificate, CertificateAuthority
from tests.embedded_tubemq.machines import FakeMaster
from tests.embedded_tubemq.raw_client import RawClient, http_get
from tests.waiting import wait_for
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


def test_the_ports_show_over_http_and_outlive_a_restart(
    secured: EmbeddedTubeMQ, authority: CertificateAuthority
) -> None:
    ports = [int(address.rpartition(":")[2]) for _, address in sorted(secured.broker_tls_addresses.items())]
    status = http_get(secured.master_web_port, "admin_query_broker_run_status")["data"]
    assert [(entry["brokerTLSPort"], entry["enableTLS"]) for entry in status] == [(port, True) for port in ports]
    master = secured.master_tls_address
    secured.restart_master()
    secured.stop_broker(1)
    secured.start_broker(1)
    assert (secured.master_tls_address, secured.broker_tls_addresses[1]) == (master, f"127.0.0.1:{ports[0]}")
    context = ssl.create_default_context(cafile=authority.ca_file)
    for address in (master, secured.broker_tls_addresses[1]):
        host, port = address.split(":")
        with (
            socket.create_connection((host, int(port)), 10) as sock,
            context.wrap_socket(sock, server_hostname=host) as over,
        ):
            assert over.version() == "TLSv1.3"


@pytest.mark.parametrize("ends", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=["nothing", "a part", "no TLS"])
def test_who_leaves_before_the_handshake_is_a_warning_with_a_reason(
    secured: EmbeddedTubeMQ, caplog: pytest.LogCaptureFixture, ends: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", int(secured.master_tls_address.rpartition(":")[2])), 10) as sock:
        sock.sendall(ends)
    wait_for(lambda: "a connection failed: " in caplog.text, "the warning")
    [told] = [record.getMessage() for record in caplog.records if "a connection failed" in record.getMessage()]
    assert told.partition("a connection failed: ")[2]


def test_the_group_page_says_who_is_over_tls(secured: EmbeddedTubeMQ, authority: CertificateAuthority) -> None:
    context = ssl.create_default_context(cafile=authority.ca_file)
    with RawClient(secured.master_address) as plain, RawClient(secured.master_tls_address, context) as over:
        plain.call(Method.CONSUMER_REGISTER_V2, **GROUP | {"sourceCount": 2}, clientId="plain")
        over.call(Method.CONSUMER_REGISTER_V2, **GROUP | {"sourceCount": 2, "nodeId": 1}, clientId="tls")
        page = http_get(secured.master_web_port, "admin_query_consume_group_detail", groupName="g")
    assert [(entry["consumerId"], entry["isOverTLS"]) for entry in page["data"]] == [("plain", False), ("tls", True)]


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
