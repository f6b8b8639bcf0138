"""The remote calls: their numbers, services, and request and response messages."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from google.protobuf.message import Message

from tubeclient.wire.proto import broker_pb2, master_pb2

MASTER = 1
BROKER_READ = 2
BROKER_WRITE = 3


class MethodSpec(NamedTuple):
    """Number and service of a call, and the protobuf classes of its request and response."""

    method_id: int
    service: int
    request: type[Message]
    response: type[Message]


class Method(Enum):
    """Every call that this project sends or serves; the value is its `MethodSpec`."""

    PRODUCER_REGISTER = MethodSpec(1, MASTER, master_pb2.RegisterRequestP2M, master_pb2.RegisterResponseM2P)
    PRODUCER_HEARTBEAT = MethodSpec(2, MASTER, master_pb2.HeartRequestP2M, master_pb2.HeartResponseM2P)
    PRODUCER_CLOSE = MethodSpec(3, MASTER, master_pb2.CloseRequestP2M, master_pb2.CloseResponseM2P)
    CONSUMER_CLOSE = MethodSpec(6, MASTER, master_pb2.CloseRequestC2M, master_pb2.CloseResponseM2C)
    SEND_MESSAGE = MethodSpec(13, BROKER_WRITE, broker_pb2.SendMessageRequestP2B, broker_pb2.SendMessageResponseB2P)
    PARTITION_REGISTER = MethodSpec(15, BROKER_READ, broker_pb2.RegisterRequestC2B, broker_pb2.RegisterResponseB2C)
    PARTITION_HEARTBEAT = MethodSpec(16, BROKER_READ, broker_pb2.HeartBeatRequestC2B, broker_pb2.HeartBeatResponseB2C)
    GET_MESSAGES = MethodSpec(17, BROKER_READ, broker_pb2.GetMessageRequestC2B, broker_pb2.GetMessageResponseB2C)
    COMMIT_OFFSET = MethodSpec(18, BROKER_READ, broker_pb2.CommitOffsetRequestC2B, broker_pb2.CommitOffsetResponseB2C)
    CONSUMER_REGISTER_V2 = MethodSpec(20, MASTER, master_pb2.RegisterRequestC2MV2, master_pb2.RegisterResponseM2CV2)
    CONSUMER_HEARTBEAT_V2 = MethodSpec(21, MASTER, master_pb2.HeartRequestC2MV2, master_pb2.HeartResponseM2CV2)
    PARTITION_METADATA = MethodSpec(22, MASTER, master_pb2.GetPartMetaRequestC2M, master_pb2.GetPartMetaResponseM2C)

    def __init__(self, *_: object) -> None:
        self.spec: MethodSpec = self.value
        """The call's numbers and classes."""


_BY_ID = {method.spec.method_id: method for method in Method}


def method_of(method_id: int) -> Method | None:
    """The call with that number; None if there is none."""
    return _BY_ID.get(method_id)
