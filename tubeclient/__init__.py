"""A Python client for Apache InLong TubeMQ: reading exact ranges, group membership, assignment, producing,
administration.

It depends only on protobuf. Every name here is public; modules without public names may change.

Errors and keys are light. Every other name is imported on first use, so that importing only `tubeclient.keys` loads
neither protobuf nor sockets.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from tubeclient._version import __version__
from tubeclient.errors import (
    AuthenticationFailed,
    BadRequest,
    BrokerFailed,
    ClientClosed,
    ConfigurationError,
    ConnectError,
    ConnectionLost,
    ContradictoryAnswers,
    CorruptMessage,
    DataLoss,
    DeadlineExceeded,
    GroupConflict,
    GroupForbidden,
    NodeIdConflict,
    NoMessageTime,
    NoSuchPartition,
    NotAvailable,
    NothingToRead,
    PartitionOccupied,
    PartitionTaken,
    PartitionUnavailable,
    ProtocolError,
    RegistrationLost,
    RemoteError,
    ServerBusy,
    SourceCountConflict,
    SpeedLimited,
    StalePack,
    StandbyMaster,
    StatusError,
    TopicNotDeployed,
    TransportError,
    TubeError,
    UnknownGroup,
)
from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey, StoreBounds, StoreKey, TopicLayout

if TYPE_CHECKING:
    from tubeclient.admin import (
        Admin,
        BrokerState,
        DeployedTopic,
        GroupDetail,
        GroupKind,
        GroupMember,
        GroupOffsets,
        GroupSummary,
        ManageStatus,
        PartitionPosition,
        RunStatus,
        TopicOnBroker,
        TopicStatus,
    )
    from tubeclient.assignment import assign
    from tubeclient.consumers.consumer import ClientBalanceConsumer
    from tubeclient.consumers.group import GroupMembership, fetch_view
    from tubeclient.consumers.pull_consumer import PullConsumer
    from tubeclient.flows.message_pack import Delivery, Position, ReceivedMessage
    from tubeclient.flows.read_plan import BootstrapOffset
    from tubeclient.metadata import ClusterView
    from tubeclient.metrics import ClientMetrics
    from tubeclient.names import reader_groups_of
    from tubeclient.positions.offset_lookup import OffsetLook, OffsetLookup
    from tubeclient.producing.outgoing import OutgoingMessage
    from tubeclient.producing.producer import Producer, SendResult
    from tubeclient.range_reader import LostRange, Pack, RangeReader, WantedRange
    from tubeclient.settings import ClientSettings, Credentials, TlsSettings, parse_master_servers
    from tubeclient.wire.messages import Message

__all__ = [
    "Admin",
    "AuthenticationFailed",
    "BadRequest",
    "BootstrapOffset",
    "BrokerFailed",
    "BrokerInfo",
    "BrokerState",
    "ClientBalanceConsumer",
    "ClientClosed",
    "ClientMetrics",
    "ClientSettings",
    "ClusterView",
    "ConfigurationError",
    "ConnectError",
    "ConnectionLost",
    "ContradictoryAnswers",
    "CorruptMessage",
    "Credentials",
    "DataLoss",
    "DeadlineExceeded",
    "Delivery",
    "DeployedTopic",
    "GroupConflict",
    "GroupDetail",
    "GroupForbidden",
    "GroupKind",
    "GroupMember",
    "GroupMembership",
    "GroupOffsets",
    "GroupSummary",
    "LostRange",
    "ManageStatus",
    "Message",
    "NoMessageTime",
    "NoSuchPartition",
    "NodeIdConflict",
    "NotAvailable",
    "NothingToRead",
    "OffsetLook",
    "OffsetLookup",
    "OffsetRange",
    "OutgoingMessage",
    "Pack",
    "PartitionKey",
    "PartitionOccupied",
    "PartitionPosition",
    "PartitionTaken",
    "PartitionUnavailable",
    "Position",
    "Producer",
    "ProtocolError",
    "PullConsumer",
    "RangeReader",
    "ReceivedMessage",
    "RegistrationLost",
    "RemoteError",
    "RunStatus",
    "SendResult",
    "ServerBusy",
    "SourceCountConflict",
    "SpeedLimited",
    "StalePack",
    "StandbyMaster",
    "StatusError",
    "StoreBounds",
    "StoreKey",
    "TlsSettings",
    "TopicLayout",
    "TopicNotDeployed",
    "TopicOnBroker",
    "TopicStatus",
    "TransportError",
    "TubeError",
    "UnknownGroup",
    "WantedRange",
    "__version__",
    "assign",
    "fetch_view",
    "parse_master_servers",
    "reader_groups_of",
]

_HOMES = {
    name: module
    for module, names in {
        "tubeclient.admin": (
            "Admin BrokerState DeployedTopic GroupDetail GroupKind GroupMember GroupOffsets GroupSummary "
            "ManageStatus PartitionPosition RunStatus TopicOnBroker TopicStatus"
        ),
        "tubeclient.assignment": "assign",
        "tubeclient.consumers.consumer": "ClientBalanceConsumer",
        "tubeclient.flows.message_pack": "Delivery Position ReceivedMessage",
        "tubeclient.flows.read_plan": "BootstrapOffset",
        "tubeclient.consumers.group": "GroupMembership fetch_view",
        "tubeclient.metadata": "ClusterView",
        "tubeclient.metrics": "ClientMetrics",
        "tubeclient.names": "reader_groups_of",
        "tubeclient.positions.offset_lookup": "OffsetLook OffsetLookup",
        "tubeclient.producing.outgoing": "OutgoingMessage",
        "tubeclient.producing.producer": "Producer SendResult",
        "tubeclient.consumers.pull_consumer": "PullConsumer",
        "tubeclient.range_reader": "LostRange Pack RangeReader WantedRange",
        "tubeclient.settings": "ClientSettings Credentials TlsSettings parse_master_servers",
        "tubeclient.wire.messages": "Message",
    }.items()
    for name in names.split()
}


if not TYPE_CHECKING:  # for type checkers a name that is not there is an error

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            if not name.startswith("_") and importlib.util.find_spec(f"{__name__}.{name}") is not None:
                return importlib.import_module(f"{__name__}.{name}")
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return __all__
