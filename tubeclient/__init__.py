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

from tubeclient import errors
from tubeclient._version import __version__ as __version__
from tubeclient.errors import *  # noqa: F403
from tubeclient.keys import BrokerInfo as BrokerInfo
from tubeclient.keys import OffsetRange as OffsetRange
from tubeclient.keys import PartitionKey as PartitionKey
from tubeclient.keys import StoreBounds as StoreBounds
from tubeclient.keys import StoreKey as StoreKey
from tubeclient.keys import TopicLayout as TopicLayout

if TYPE_CHECKING:
    from tubeclient.admin import Admin as Admin
    from tubeclient.admin import BrokerState as BrokerState
    from tubeclient.admin import DeployedTopic as DeployedTopic
    from tubeclient.admin import GroupDetail as GroupDetail
    from tubeclient.admin import GroupMember as GroupMember
    from tubeclient.admin import GroupOffsets as GroupOffsets
    from tubeclient.admin import GroupSummary as GroupSummary
    from tubeclient.admin import PartitionPosition as PartitionPosition
    from tubeclient.admin import TopicOnBroker as TopicOnBroker
    from tubeclient.assignment import assign as assign
    from tubeclient.consumers.consumer import ClientBalanceConsumer as ClientBalanceConsumer
    from tubeclient.consumers.group import GroupMembership as GroupMembership
    from tubeclient.consumers.group import fetch_view as fetch_view
    from tubeclient.consumers.pull_consumer import PullConsumer as PullConsumer
    from tubeclient.flows.message_pack import Delivery as Delivery
    from tubeclient.flows.message_pack import Position as Position
    from tubeclient.flows.message_pack import ReceivedMessage as ReceivedMessage
    from tubeclient.flows.read_plan import BootstrapOffset as BootstrapOffset
    from tubeclient.metadata import ClusterView as ClusterView
    from tubeclient.metrics import ClientMetrics as ClientMetrics
    from tubeclient.names import reader_groups_of as reader_groups_of
    from tubeclient.positions.offset_lookup import OffsetLookup as OffsetLookup
    from tubeclient.positions.offset_lookup import OffsetSnapshot as OffsetSnapshot
    from tubeclient.producing.outgoing import OutgoingMessage as OutgoingMessage
    from tubeclient.producing.producer import Producer as Producer
    from tubeclient.producing.producer import SendResult as SendResult
    from tubeclient.range_reader import LostRange as LostRange
    from tubeclient.range_reader import Pack as Pack
    from tubeclient.range_reader import RangeReader as RangeReader
    from tubeclient.range_reader import WantedRange as WantedRange
    from tubeclient.settings import ClientSettings as ClientSettings
    from tubeclient.settings import Credentials as Credentials
    from tubeclient.settings import TlsSettings as TlsSettings
    from tubeclient.settings import parse_master_servers as parse_master_servers
    from tubeclient.wire.messages import Message as Message

_HOMES = {
    name: module
    for module, names in {
        "tubeclient.admin": (
            "Admin BrokerState DeployedTopic GroupDetail GroupMember GroupOffsets GroupSummary PartitionPosition "
            "TopicOnBroker"
        ),
        "tubeclient.assignment": "assign",
        "tubeclient.consumers.consumer": "ClientBalanceConsumer",
        "tubeclient.flows.message_pack": "Delivery Position ReceivedMessage",
        "tubeclient.flows.read_plan": "BootstrapOffset",
        "tubeclient.consumers.group": "GroupMembership fetch_view",
        "tubeclient.metadata": "ClusterView",
        "tubeclient.metrics": "ClientMetrics",
        "tubeclient.names": "reader_groups_of",
        "tubeclient.positions.offset_lookup": "OffsetLookup OffsetSnapshot",
        "tubeclient.producing.outgoing": "OutgoingMessage",
        "tubeclient.producing.producer": "Producer SendResult",
        "tubeclient.consumers.pull_consumer": "PullConsumer",
        "tubeclient.range_reader": "LostRange Pack RangeReader WantedRange",
        "tubeclient.settings": "ClientSettings Credentials TlsSettings parse_master_servers",
        "tubeclient.wire.messages": "Message",
    }.items()
    for name in names.split()
}

_KEYS = ["BrokerInfo", "OffsetRange", "PartitionKey", "StoreBounds", "StoreKey", "TopicLayout"]
_ERRORS = [name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, errors.TubeError)]
_ERRORS.remove("_OfPartition")
__all__ = sorted(["__version__", *_ERRORS, *_KEYS, *_HOMES])


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
