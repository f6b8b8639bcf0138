"""TLS with a running cluster: what works over TCP works over it, and each mishap says what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.certificates import Certificate, CertificateAuthority, server_context
from tubeclient import (
    Admin,
    ClientSettings,
    ConfigurationError,
    ConnectError,
    GroupMembership,
    OffsetRange,
    PartitionKey,
    Producer,
    RangeReader,
    TlsSettings,
    fetch_view,
)

GROUPS = ("etl-r0", "etl-r1")
KEY = PartitionKey(1, "clicks", 0)


@pytest.fixture
def stranger(tmp_path: Path) -> CertificateAuthority:
    return CertificateAuthority(tmp_path / "stranger")


@pytest.fixture
def trusting(authority: CertificateAuthority) -> TlsSettings:
    return TlsSettings(ca_file=authority.ca_file)


@contextmanager
def cluster(folder: Path, shown: Certificate, client_ca_file: str | None = None) -> Iterator[EmbeddedTubeMQ]:
    tls = server_context(shown, client_ca_file)
    with EmbeddedTubeMQ(folder / "tubemq", [TopicConfig("clicks")], tls=tls) as running:
        yield running


def over_tls(running: EmbeddedTubeMQ, tls: TlsSettings) -> ClientSettings:
    return ClientSettings((running.master_tls_address,), master_web_port=running.master_web_port, tls=tls)


def look(settings: ClientSettings) -> None:
    fetch_view(settings, ["clicks"], GROUPS)


def produce_join_and_read(settings: ClientSettings, running: EmbeddedTubeMQ) -> None:
    # Where nothing was written, a broker has to take a connection of clients before its word counts.
    assert Admin(settings).store_bounds(["clicks"]) == {KEY.store: (0, 0)}
    with Producer(settings) as producer:
        producer.publish(["clicks"])
        sent = [future.result(30) for future in producer.submit_many("clicks", [b"%d" % n for n in range(1_000)])]
    assert sorted(result.offset for result in sent if result.offset is not None) == [n * 28 for n in range(1_000)]
    with closing(GroupMembership(settings, "etl", ["clicks"], 2)) as membership:
        broker = membership.join().brokers[1]
    assert broker.address == running.broker_tls_addresses[1]
    with RangeReader(settings, GROUPS) as reader:
        packs = list(reader.read(broker, OffsetRange(KEY, 280, 27_720)))
    assert sum(len(pack.messages) for pack in packs) == 980


def test_everything_works_over_tls(tmp_path: Path, server_certificate: Certificate, trusting: TlsSettings) -> None:
    with cluster(tmp_path, server_certificate) as running:
        produce_join_and_read(over_tls(running, trusting), running)
        plain = replace(over_tls(running, trusting), master_servers=(running.master_address,), tls=None)
        assert fetch_view(plain, ["clicks"], GROUPS).brokers[1].address == running.broker_addresses[1]


def test_everything_works_over_two_way_tls(
    tmp_path: Path, authority: CertificateAuthority, server_certificate: Certificate, trusting: TlsSettings
) -> None:
    own = authority.issue("client", password="key-secret")
    (tmp_path / "password").write_text("key-secret\n")
    tls = replace(trusting, certificate_file=own.certificate_file, key_file=own.key_file)
    with cluster(tmp_path, server_certificate, authority.ca_file) as running:
        produce_join_and_read(over_tls(running, replace(tls, key_password_file=str(tmp_path / "password"))), running)
        with pytest.raises(ConfigurationError, match=r"client\.key is encrypted; give key_password_file"):
            look(over_tls(running, tls))
        with pytest.raises(ConfigurationError, match=r"client\.key cannot be used .*password") as caught:
            look(over_tls(running, replace(tls, key_password="wrong-secret")))
        assert "wrong-secret" not in str(caught.value)


def test_certificates_that_one_side_refuses(
    tmp_path: Path,
    authority: CertificateAuthority,
    server_certificate: Certificate,
    stranger: CertificateAuthority,
    trusting: TlsSettings,
) -> None:
    unknown = stranger.issue("unknown")
    shown = replace(trusting, certificate_file=unknown.certificate_file, key_file=unknown.key_file)
    with cluster(tmp_path, server_certificate, authority.ca_file) as running:
        for tls in (TlsSettings(ca_file=stranger.ca_file), TlsSettings()):
            with pytest.raises(ConnectError, match=rf"{running.master_tls_address}.* its signer must be in ca_file"):
                look(over_tls(running, tls))
        for tls in (trusting, shown):
            with pytest.raises(ConnectError, match=r"client certificate.*certificate_file"):
                look(over_tls(running, tls))
    with cluster(tmp_path, authority.issue("elsewhere", host="DNS:elsewhere.example")) as running:
        with pytest.raises(ConnectError, match=r"must name 127\.0\.0\.1, unless check_hostname"):
            look(over_tls(running, trusting))
        look(over_tls(running, replace(trusting, check_hostname=False)))


def test_settings_that_do_not_fit_together() -> None:
    with pytest.raises(ConfigurationError, match="key_file is given without certificate_file"):
        TlsSettings(key_file="k")
    with pytest.raises(ConfigurationError, match="password is given without certificate_file"):
        TlsSettings(key_password_file="p")
    with pytest.raises(ConfigurationError, match="key_password and key_password_env exclude each other"):
        TlsSettings(certificate_file="c", key_password="p", key_password_env="E")
    shown = TlsSettings(certificate_file="c", key_password="hidden-word")
    assert "hidden-word" not in f"{shown} {shown!r} {ClientSettings(('a:1',), tls=shown)!r}"
    assert hash(shown) == hash(TlsSettings(certificate_file="c", key_password="hidden-word"))
