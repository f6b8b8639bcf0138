"""Our client on Apache's servers with everything locked: two-way TLS, signatures asked for, visit tokens checked.

What of it Apache's open-source servers can show. One-way TLS they cannot: TSSLEngineUtil opens a trust store that is
only read from the settings for two-way TLS, and the first TLS connection ends the whole server. They have no users
either: masters look at a signature's presence and time, brokers at its presence (SimpleCertificateMasterHandler,
SimpleCertificateBrokerHandler), so the signature itself is compared with the one that TubeMQ's own class makes. A
broker refuses a wrong visit token from 60 s after its start on, which no test waits for.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.apache.jars import java_executable
from tests.apache.java_client import JavaVM
from tests.apache.server import ApacheTubeMQ, TopicSpec
from tests.apache.settings import ServerTls
from tests.certificates import Certificate, CertificateAuthority
from tubeclient import (
    AuthenticationFailed,
    ClientSettings,
    ConnectError,
    Credentials,
    GroupMembership,
    OffsetLookup,
    OffsetRange,
    PartitionKey,
    Producer,
    RangeReader,
    TlsSettings,
    fetch_view,
)
from tubeclient.wire.signature import sign

pytestmark = pytest.mark.apache

GROUPS = ("locked-r0", "locked-r1")
KEY = PartitionKey(1, "locked", 0)
ROWS = 500


PASSWORD = "fixture"  # of stores in a test's folder; six characters are the least that keytool takes


def server_tls(folder: Path, shown: Certificate, trusted: CertificateAuthority) -> ServerTls:
    """What lets a server show `shown` and trust clients whom `trusted` signed."""
    tls = ServerTls(folder / "keys.p12", folder / "trusted.p12", PASSWORD)
    # Java reads PKCS12 where TubeMQ asks for "JKS".
    _run(
        *("openssl", "pkcs12", "-export", "-in", shown.certificate_file, "-inkey", shown.key_file),
        *("-out", str(tls.key_store), "-passout", f"pass:{PASSWORD}"),
    )
    _run(
        *(str(Path(java_executable()).with_name("keytool")), "-importcert", "-noprompt", "-file", trusted.ca_file),
        *("-alias", "ca", "-keystore", str(tls.trust_store), "-storetype", "PKCS12", "-storepass", PASSWORD),
    )
    return tls


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def locked(
    tmp_path_factory: pytest.TempPathFactory, authority: CertificateAuthority, server_certificate: Certificate
) -> Iterator[ApacheTubeMQ]:
    folder = tmp_path_factory.mktemp("locked")
    checks = ("startProduceAuthenticate", "startConsumeAuthenticate", "startVisitTokenCheck")
    cluster = ApacheTubeMQ(
        folder / "tubemq",
        brokers=1,
        heap_mb=256,
        master_settings=dict.fromkeys(checks, "true"),
        tls=server_tls(folder, server_certificate, authority),
    )
    cluster.start([TopicSpec("locked")])
    yield cluster
    cluster.stop(clean=False)


@pytest.fixture(scope="module")
def settings(locked: ApacheTubeMQ, authority: CertificateAuthority) -> ClientSettings:
    """With all that is asked for; offsets are asked for over the protocol."""
    own = authority.issue("apache-client")
    return ClientSettings(
        (locked.master_tls_address,),
        master_web_port=1,
        retry_limit_ms=10_000,
        credentials=Credentials("alice", password="a word"),
        tls=TlsSettings(authority.ca_file, own.certificate_file, own.key_file),
    )


@pytest.fixture(scope="module")
def bodies(settings: ClientSettings) -> list[bytes]:
    """What was sent to the topic, in its order."""
    sent = [b"%d " % n * 100 for n in range(ROWS)]
    with Producer(settings, max_in_flight=1) as producer:
        producer.publish(["locked"])
        assert [producer.send("locked", body).offset for body in sent] == [n * 28 for n in range(ROWS)]
    return sent


def test_we_produce_join_look_up_and_read(locked: ApacheTubeMQ, settings: ClientSettings, bodies: list[bytes]) -> None:
    with closing(GroupMembership(settings, "locked", ["locked"], 2)) as membership:
        membership.join()
        membership.report({0: [KEY]})
        view = membership.refreshed_view()
        assert view.brokers[1].address == locked.broker_tls_addresses[0]
        with closing(OffsetLookup(settings, GROUPS)) as lookup:
            assert lookup.bounds(view)[KEY.store] == (0, ROWS * 28)
        with RangeReader(settings, GROUPS, visit_token=membership.visit_token) as reader:
            packs = list(reader.read(view.brokers[1], OffsetRange(KEY, 10 * 28, 490 * 28)))
    assert [body for pack in packs for body in pack.bodies] == bodies[10:490]


def test_without_a_user_nothing_is_done(settings: ClientSettings, bodies: list[bytes]) -> None:
    nobody = replace(settings, credentials=None)
    broker = fetch_view(settings, ["locked"], GROUPS).brokers[1]
    with Producer(nobody) as producer, pytest.raises(AuthenticationFailed, match="415"):
        producer.publish(["locked"])
    with (
        closing(GroupMembership(nobody, "locked", ["locked"], 2)) as membership,
        pytest.raises(AuthenticationFailed, match="415"),
    ):
        membership.join()
    with RangeReader(nobody, GROUPS) as reader, pytest.raises(AuthenticationFailed, match="415"):
        list(reader.read(broker, OffsetRange(KEY, 0, 280)))


def test_untrusted_client_certificate(
    locked: ApacheTubeMQ, settings: ClientSettings, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A connection fails if the client has no certificate that the server trusts."""
    assert settings.tls is not None
    unknown = CertificateAuthority(tmp_path_factory.mktemp("stranger")).issue("unknown")
    for tls in (
        TlsSettings(settings.tls.ca_file),
        replace(settings.tls, certificate_file=unknown.certificate_file, key_file=unknown.key_file),
    ):
        with pytest.raises(
            ConnectError, match=rf"{locked.master_tls_address} .*client certificate, set certificate_file to one"
        ):
            fetch_view(replace(settings, tls=tls), ["locked"], GROUPS)


@pytest.mark.parametrize(("user", "password"), [("alice", "a word"), ("jürgen", "pässword / + =")])
def test_our_signature_is_the_one_apaches_class_makes(java_vm: JavaVM, user: str, password: str) -> None:
    for timestamp_ms, nonce in ((1_700_000_000_000, 0), (1_700_000_000_001, (1 << 31) - 1)):
        strings = java_vm.jvm.org.apache.inlong.tubemq.corebase.utils.TStringUtils
        # As a long, which py4j makes of numbers this large.
        assert sign(user, password, timestamp_ms, nonce).signature == strings.getAuthSignature(
            user, password, timestamp_ms, nonce
        )
