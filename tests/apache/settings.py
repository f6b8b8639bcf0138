"""The configuration files of Apache TubeMQ's master and broker.

Names and effects of the settings come from TubeMQ's own sample files; trials showed which make the start fast. Times
are milliseconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Not a secret: TubeMQ wants some word in every changing HTTP call, and this server lives on loopback for one test run.
MODIFY_TOKEN: Final = "fixture"

# How long the master believes in a silent broker. Shorter than TubeMQ's 25 000 so that a killed broker is noticed
# within a test, longer than any stall seen on a busy machine with two cores.
BROKER_LEASE_MS: Final = 12_000

_MASTER_PACE: Final[Mapping[str, object]] = {
    # A group's topic meta is renewed once per balance period: what a consumer waits for after a topic was added.
    "consumerBalancePeriodMs": 3_000,
    "firstBalanceDelayAfterStartMs": 3_000,
    "brokerHeartbeatTimeoutMs": BROKER_LEASE_MS,
    "stepChgWaitPeriodMs": 1_000,
    "onlineOnlyReadToRWPeriodMs": 1_000,
    "offlineOnlyReadToRWPeriodMs": 1_000,
}

_BROKER_PACE: Final[Mapping[str, object]] = {
    # Every step of a topic's way to its clients happens in a broker's heartbeat (8 000 by default).
    "heartbeatPeriodMs": 500,
    # How often data goes from the file's buffer to disk, which is when filtered readers may see it: 10 000 is the least
    # a broker accepts, 20 000 its default.
    "logFlushDiskDurMs": 10_000,
    # How often positions of groups are taken over to where HTTP calls see them; 5 000 by default.
    "offsetStgCacheFlushMs": 500,
    # TubeMQ's own default, kept because it is what a real cluster does to a dead reader's partitions.
    "consumerRegTimeoutMs": 30_000,
    "maxSegmentSize": 1_073_741_824,
    "maxIndexSegmentSize": 19_600_000,
    "transferSize": 524_288,
}

# Velocity 2.3's names; the file loader is told where the three templates below are.
_VELOCITY: Final = """resource.default_encoding=UTF-8
output.encoding=UTF-8
resource.loaders=file
resource.loader.file.class=org.apache.velocity.runtime.resource.loader.FileResourceLoader
resource.loader.file.path={templates}
resource.loader.file.cache=true
velocimacro.library.path=macro.vm
"""


@dataclass(frozen=True)
class ServerTls:
    """What servers show and trust over TLS, in Java's key stores; clients have to show something too."""

    key_store: Path
    trust_store: Path
    password: str

    def section(self, port: int) -> dict[str, object]:
        """The ini file's section of a server whose TLS port is `port`."""
        return {
            "tlsEnable": "true",
            "tlsPort": port,
            "tlsKeyStorePath": self.key_store,
            "tlsKeyStorePassword": self.password,
            "tlsTwoWayAuthEnable": "true",
            "tlsTrustStorePath": self.trust_store,
            "tlsTrustStorePassword": self.password,
        }


@dataclass(frozen=True)
class MasterFiles:
    """Where one master listens and keeps its things."""

    folder: Path
    port: int
    web_port: int
    store_port: int
    node: int
    """Its number among the masters of the cluster, of which the first is the one that others join."""
    helper_port: int
    """The store port of the first."""
    extra: Mapping[str, object] = field(default_factory=dict)
    tls: Mapping[str, object] = field(default_factory=dict)

    def write(self) -> Path:
        """Writes the ini file and the web resources; returns the ini file's path."""
        store = self.folder / "meta"
        store.mkdir(parents=True, exist_ok=True)
        web = self.folder / "web"
        _write_web_resources(web)
        master: dict[str, object] = {
            "hostName": "127.0.0.1",
            "port": self.port,
            "webPort": self.web_port,
            "confModAuthToken": MODIFY_TOKEN,
            "webResourcePath": web,
            **_MASTER_PACE,
            **self.extra,
        }
        # The embedded store as a group: the first elects itself, others join. 1/3/1: how it syncs and acknowledges.
        meta_store: dict[str, object] = {
            "repGroupName": "fixtureGroup",
            "repNodeName": f"fixtureNode{self.node}",
            "repNodePort": self.store_port,
            "repHelperHost": f"127.0.0.1:{self.helper_port}",
            "metaDataPath": store,
            "metaLocalSyncPolicy": 1,
            "metaReplicaSyncPolicy": 3,
            "repReplicaAckPolicy": 1,
            "repStatusCheckTimeoutMs": 10_000,
        }
        return _write_ini(
            self.folder / "master.ini", {"master": master, "meta_bdb": meta_store, "tlsSetting": self.tls}
        )


@dataclass(frozen=True)
class BrokerFiles:
    """Where one broker listens and keeps its things."""

    folder: Path
    broker_id: int
    host: str
    port: int
    web_port: int
    master_address: str
    tls_port: int
    extra: Mapping[str, object] = field(default_factory=dict)
    tls: Mapping[str, object] = field(default_factory=dict)

    def write(self) -> Path:
        """Writes the ini file; returns its path."""
        data = self.folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        broker: dict[str, object] = {
            "brokerId": self.broker_id,
            "hostName": self.host,
            "port": self.port,
            "webPort": self.web_port,
            "masterAddressList": self.master_address,
            "primaryPath": data,
            **_BROKER_PACE,
            **self.extra,
        }
        # Auditing would look for classes that are not on our class path.
        audit: dict[str, object] = {"auditEnable": "false"}
        sections = {"broker": broker, "audit": audit, "tlsSetting": self.tls}
        return _write_ini(self.folder / "broker.ini", sections)


def _write_ini(path: Path, sections: Mapping[str, Mapping[str, object]]) -> Path:
    lines: list[str] = []
    for section, values in sections.items():
        lines += [f"[{section}]", *(f"{key}={value}" for key, value in values.items()), ""]
    path.write_text("\n".join(lines))
    return path


def _write_web_resources(folder: Path) -> None:
    """The least a master needs to answer HTTP: it renders even its JSON through a template and its layout."""
    templates = folder / "templates"
    for name, text in {
        "screen/webapi.vm": "$sb",
        "layout/webapi.vm": "$screen_placeholder",
        "macro.vm": "",
    }.items():
        target = templates / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    (folder / "velocity.properties").write_text(_VELOCITY.format(templates=templates))
