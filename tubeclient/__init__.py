"""A client for Apache InLong TubeMQ in Python: exact range reading, group membership, assignment, producing.

It needs nothing but protobuf. Everything named here is public; modules that are not are free to change.
"""

from tubeclient._version import __version__
from tubeclient.assignment import assign
from tubeclient.credentials import Credentials
from tubeclient.errors import (
    AuthenticationFailed,
    BadRequest,
    ClientClosed,
    ConfigurationError,
    ConnectError,
    ConnectionLost,
    CorruptMessage,
    DataLoss,
    DeadlineExceeded,
    GroupConflict,
    GroupForbidden,
    NodeIdConflict,
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
)
from tubeclient.group import GroupMembership, fetch_view
from tubeclient.identity import reader_groups_of
from tubeclient.keys import BrokerInfo, OffsetRange, PartitionKey, StoreKey, TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.offset_lookup import OffsetLookup, StoreBounds
from tubeclient.producer import Producer, SendResult
from tubeclient.range_reader import LostRange, Pack, RangeReader
from tubeclient.settings import ClientSettings, parse_master_servers
from tubeclient.tls_settings import TlsSettings

__all__ = [
    "AuthenticationFailed",
    "BadRequest",
    "BrokerInfo",
    "ClientClosed",
    "ClientSettings",
    "ClusterView",
    "ConfigurationError",
    "ConnectError",
    "ConnectionLost",
    "CorruptMessage",
    "Credentials",
    "DataLoss",
    "DeadlineExceeded",
    "GroupConflict",
    "GroupForbidden",
    "GroupMembership",
    "LostRange",
    "NodeIdConflict",
    "NotAvailable",
    "NothingToRead",
    "OffsetLookup",
    "OffsetRange",
    "Pack",
    "PartitionKey",
    "PartitionOccupied",
    "PartitionTaken",
    "PartitionUnavailable",
    "Producer",
    "ProtocolError",
    "RangeReader",
    "RegistrationLost",
    "RemoteError",
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
    "TransportError",
    "TubeError",
    "__version__",
    "assign",
    "fetch_view",
    "parse_master_servers",
    "reader_groups_of",
]
