"""A broker's state machine with a fixed clock, and short forms of its calls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedded_tubemq.broker.broker import Broker
from embedded_tubemq.broker.offsets import GroupOffsets
from embedded_tubemq.common.catalogue import Catalogue, TopicConfig
from embedded_tubemq.storage.store import StoreDirectory
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import encode_payload

__all__ = ["START_MS", "FakeBroker"]

START_MS = 1_700_000_000_000


class FakeBroker:
    """A broker on real files in `folder`, with one topic; `now_ms` is the time of the next call."""

    def __init__(self, folder: Path) -> None:
        self.now_ms = START_MS
        self.catalogue = Catalogue(START_MS, [TopicConfig("flights", 1, 2)])
        self.offsets = GroupOffsets()
        self.stores = StoreDirectory(folder, self.catalogue, lambda: self.now_ms)
        self.machine = Broker(1, self.catalogue, self.stores, self.offsets)

    def send(self, body: bytes, partition: int = 0) -> Any:
        payload, flag = encode_payload(body, "")
        return self._call(Method.SEND_MESSAGE, partition, checkSum=-1, sentAddr=0, data=payload, flag=flag)

    def register(self, status: int, **fields: Any) -> Any:
        return self._call(Method.PARTITION_REGISTER, groupName="g", opType=31, readStatus=status, **fields)

    def unregister(self, *, consumed: bool) -> Any:
        return self._call(Method.PARTITION_REGISTER, groupName="g", opType=32, readStatus=0 if consumed else 1)

    def fetch(self, **fields: bool) -> Any:
        return self._call(Method.GET_MESSAGES, groupName="g", **fields)

    def commit(self, **fields: bool) -> Any:
        return self._call(Method.COMMIT_OFFSET, groupName="g", **fields)

    def _call(self, method: Method, partition: int = 0, **fields: Any) -> Any:
        request = method.spec.request(clientId="c", topicName="flights", partitionId=partition, **fields)
        answer = self.machine.handle(method, request, self.now_ms)
        assert answer.IsInitialized()  # clients cannot read it otherwise, whatever it says
        return answer
