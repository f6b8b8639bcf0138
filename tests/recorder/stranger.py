"""A client that knows the protocol alone: what Java's clients never ask, or keep from their users."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from tests.embedded_tubemq.raw_client import RawClient
from tests.recorder.exchanges import MASTER, broker_name
from tests.recorder.proxy import Recorder
from tubeclient.flows.reader import REGISTER, UNREGISTER
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.wire.methods import Method

__all__ = ["Stranger"]

_ME = {"clientId": "stranger"}


class Stranger:
    """Asks the master and broker 1. Another client of the `group` has partition 0 of the topic."""

    def __init__(self, recorder: Recorder, topic: str, group: str) -> None:
        self._topic, self._group = topic, group
        self._master = RawClient(recorder.address(MASTER))
        self._broker = RawClient(recorder.address(broker_name(1)))

    def __enter__(self) -> Self:
        answer = self._master.call(Method.PRODUCER_REGISTER, **_ME, brokerCheckSum=-1, hostName="127.0.0.1")
        self._visit = {"visitAuthorizedToken": answer.authorizedInfo.visitAuthorizedToken}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._master.call(Method.PRODUCER_CLOSE, **_ME)
        self._master.close()
        self._broker.close()

    def ask_everything(self) -> None:
        """All of it, whatever is answered."""
        self._ask_the_master()
        self._read_what_is_somebody_elses()
        self._read_without_confirms()
        self._start_at_the_end()
        self._send()

    def _ask_the_master(self) -> None:
        unknown = {**_ME, "groupName": f"{self._group}_unknown"}
        here = {"hostName": "127.0.0.1", "topicList": [self._topic]}
        self._master.call(Method.PRODUCER_HEARTBEAT, clientId="unknown", brokerCheckSum=-1, hostName="127.0.0.1")
        self._master.call(Method.PRODUCER_HEARTBEAT, **_ME, brokerCheckSum=-1, **here)
        self._master.call(Method.PRODUCER_REGISTER, clientId=" ", brokerCheckSum=-1, **here)
        self._master.call(Method.CONSUMER_HEARTBEAT_V2, **unknown)
        self._master.call(Method.PARTITION_METADATA, **unknown, brokerConfigId=-2, topicMetaInfoId=-2)
        self._master.call(Method.CONSUMER_REGISTER_V2, **unknown, sourceCount=-2, nodeId=-2, hostName="127.0.0.1")
        self._master.call(Method.CONSUMER_REGISTER_V2, **unknown, sourceCount=2, nodeId=2, **here)
        self._master.call(Method.CONSUMER_CLOSE, **unknown)

    def _send(self) -> None:
        message = {**_ME, "topicName": self._topic, "partitionId": 0, "flag": 0, "sentAddr": 0, "authInfo": self._visit}
        self._broker.call(Method.SEND_MESSAGE, **message | {"partitionId": 2}, data=b"body", checkSum=-1)
        self._broker.call(Method.SEND_MESSAGE, **message | {"topicName": "nowhere"}, data=b"body", checkSum=-1)
        self._broker.call(Method.SEND_MESSAGE, **message, data=b"", checkSum=-1)
        self._broker.call(Method.SEND_MESSAGE, **message, data=b"body", checkSum=1)
        self._broker.call(Method.SEND_MESSAGE, **message, data=b"body", checkSum=-1)

    def _read_what_is_somebody_elses(self) -> None:
        for partition_id in (0, 1):  # one that another client has, one that nobody has
            self._register(partition_id=2)
            self._fetch(partition_id)
            self._commit(partition_id)
            self._unregister(partition_id)
            self._beat(partition_id)
        self._register(0)
        self._register(0, topicName="nowhere")

    def _read_without_confirms(self) -> None:
        """As readers of ranges do: each fetch commits the one before it, or reads it again."""
        self._register(1, currOffset=0)
        self._fetch(1, lastPackConsumed=False)
        self._fetch(1, lastPackConsumed=False)
        self._fetch(1, lastPackConsumed=True)
        self._beat(1)
        self._commit(1, lastPackConsumed=False)
        self._register(1, currOffset=INDEX_ENTRY_BYTES * 2)
        self._fetch(1, manualCommitOffset=True)
        self._fetch(1, manualCommitOffset=True)
        self._unregister(1)

    def _start_at_the_end(self) -> None:
        for read_status in (1, 2):
            self._register(10_000, readStatus=read_status)
            self._fetch(10_000)
            self._unregister(10_000)

    def _register(self, partition_id: int, **fields: Any) -> None:
        asked = {"opType": REGISTER, "readStatus": 0, "authInfo": self._visit}
        self._ask(Method.PARTITION_REGISTER, partition_id, **asked | fields)

    def _unregister(self, partition_id: int) -> None:
        asked = {"opType": UNREGISTER, "readStatus": 0, "authInfo": self._visit}
        self._ask(Method.PARTITION_REGISTER, partition_id, **asked)

    def _fetch(self, partition_id: int, **fields: bool) -> None:
        self._ask(Method.GET_MESSAGES, partition_id, **fields)

    def _commit(self, partition_id: int, **fields: bool) -> None:
        self._ask(Method.COMMIT_OFFSET, partition_id, **fields)

    def _beat(self, partition_id: int) -> None:
        where = f"1:127.0.0.1:8123#{self._topic}:{partition_id}"
        me = {**_ME, "groupName": self._group}
        self._broker.call(Method.PARTITION_HEARTBEAT, **me, readStatus=0, partitionInfo=[where], authInfo=self._visit)

    def _ask(self, method: Method, partition_id: int, **fields: Any) -> None:
        where = {"groupName": self._group, "topicName": self._topic, "partitionId": partition_id}
        self._broker.call(method, **_ME, **where | fields)
