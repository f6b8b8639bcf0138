"""A broker as a state machine: calls in, answers out; the caller supplies time and stores.

Ownership, positions and packs follow TubeMQ's broker step by step (source: BrokerServiceServer): clients must cope with
its edge cases. The order of checks is: 503, parameters 400, topic 403, not registered 411, other owner 412, then the
call's own checks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from google.protobuf.message import Message

from embedded_tubemq.broker.offsets import Cursor, GroupOffsets, Ownership, Reader
from embedded_tubemq.common.catalogue import MAX_MESSAGE_BYTES, NOBODY, Catalogue, Peer, ServerSettings, TopicConfig
from embedded_tubemq.common.refusal import Authenticator, Code, Faults, Refusal, checked_name, refused
from embedded_tubemq.storage.layout import CHECKSUM_BYTE
from embedded_tubemq.storage.store import (
    FIRST_FETCH_BYTES,
    LATER_FETCH_BYTES,
    NewMessage,
    Store,
    StoreDirectory,
    choose_pack,
    entry_budget,
)
from tubeclient.core import CORE
from tubeclient.errors import ProtocolError
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.wire.envelope import decode_request, parse_message
from tubeclient.wire.framing import Frame
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum, java_string_hash
from tubeclient.wire.proto import broker_pb2
from tubeclient.wire.strings import encode_subscription, parse_subscription

__all__ = ["Broker"]

_LOG = logging.getLogger(__name__)

OP_REGISTER = 31
OP_UNREGISTER = 32
SIZE_TOLERANCE = 10 * 1024  # bytes a payload may exceed the limit (TubeMQ allows attributes as much)
SLOW_BUDGETS = 10  # a filtered reader must slow down when fewer budgets of index entries are left
_WELL: dict[str, Any] = {"success": True, "errCode": Code.SUCCESS, "errMsg": "OK!"}


class Broker:
    """One broker; `offsets` and `stores` outlive it."""

    def __init__(
        self,
        broker_id: int,
        catalogue: Catalogue,
        stores: StoreDirectory,
        offsets: GroupOffsets,
        settings: ServerSettings | None = None,
        faults: Faults | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.catalogue = catalogue
        self.stores = stores
        self.offsets = offsets
        self.settings = settings or ServerSettings()
        self.faults = faults or Faults()
        self.ownership = Ownership(self.settings.lease_ms)
        self._authenticator = Authenticator(self.settings.users)
        self._calls: dict[Method, Callable[[Any, int], Message | bytes]] = {
            Method.SEND_MESSAGE: self._send,
            Method.PARTITION_REGISTER: self._register,
            Method.PARTITION_HEARTBEAT: self._heartbeat,
            Method.COMMIT_OFFSET: self._commit,
            Method.GET_MESSAGES: self._fetch,
        }
        self.methods = frozenset(self._calls)

    def handle(self, method: Method, request: Message, now_ms: int, peer: Peer = NOBODY) -> Message:
        answer = self.serve(method, request, now_ms, peer)
        return answer if isinstance(answer, Message) else broker_pb2.GetMessageResponseB2C.FromString(answer)

    def serve(self, method: Method, request: Any, now_ms: int, peer: Peer) -> Message | bytes:
        """Answer one call. A successful fetch is answered as bytes, for speed."""
        try:
            self.faults.refuse_if_forced(method)
            if self.faults.stop_writing and method is Method.SEND_MESSAGE:
                raise Refusal(Code.SERVICE_UNAVAILABLE, "the broker takes no messages")
            return self._calls[method](request, now_ms)
        except Refusal as refusal:
            return refused(method, refusal)

    def tick(self, now_ms: int) -> None:
        """Free the partitions of silent owners; call it every second."""
        self._free(lambda _, reader: now_ms >= reader.deadline_ms)

    def forget_topic(self, topic: str) -> None:
        """Handle a deleted topic: its readers must register again, its messages are gone, committed offsets stay."""
        self._free(lambda cursor, _: cursor.topic == topic)
        self.stores.delete_topic(topic)

    def _free(self, is_gone: Callable[[Cursor, Reader], bool]) -> None:
        for cursor in self.ownership.drop(is_gone):
            self.offsets.commit(cursor, consumed=False)  # what they had fetched comes again

    # Producers

    def store_sends(self, frames: list[Frame], start: int, now_ms: int) -> list[bytes | None]:
        """Store the messages of the usual requests that follow each other from number `start` on, with a write for each
        store. Returns the frames that answer them; None for one that nothing was done for, as `serve` refuses it."""
        if CORE is None or self.faults.touch_sends():
            return []
        sends = CORE.take_sends(frames, start, MAX_MESSAGE_BYTES + SIZE_TOLERANCE)
        by_store: dict[Store, list[int]] = {}
        groups: list[list[int]] = sends.groups
        for numbers in groups:
            with suppress(ProtocolError, Refusal, OSError):
                stream = frames[start + numbers[0]].stream
                request = parse_message(broker_pb2.SendMessageRequestP2B, decode_request(stream).body)
                topic = self._topic_to_write(request, now_ms)
                by_store.setdefault(self.stores.of_partition(topic.name, request.partitionId), []).extend(numbers)
        answers: list[bytes | None] = [None] * sum(map(len, groups))
        for store, numbers in by_store.items():
            numbers.sort()
            with suppress(OSError):  # a disk that does not take all may take some of them
                done = store.append_sends(sends, numbers, now_ms, require_auth=self._authenticator.enabled)
                for number, answer in zip(numbers, done, strict=True):
                    answers[number] = answer
        return answers

    def _topic_to_write(self, request: Any, now_ms: int) -> TopicConfig:
        self._authenticate(request, now_ms)
        checked_name(request.clientId, "clientId")
        return self._topic_of_partition(request.topicName, request.partitionId)

    def _send(self, request: Any, now_ms: int) -> Message:
        topic = self._topic_to_write(request, now_ms)
        payload: bytes = request.data
        if not payload:
            raise Refusal(Code.BAD_REQUEST, "the message is empty")
        if len(payload) > MAX_MESSAGE_BYTES + SIZE_TOLERANCE:
            raise Refusal(Code.BAD_REQUEST, f"a message of {len(payload)} bytes; {MAX_MESSAGE_BYTES} are allowed")
        if request.checkSum not in (-1, checksum(payload)):
            raise Refusal(
                Code.FORBIDDEN, f"checksum {request.checkSum} is wrong; the message's checksum is {checksum(payload)}"
            )
        tag = request.msgType.strip()
        message = NewMessage(request.partitionId, payload, request.flag, java_string_hash(tag) if tag else -1)
        try:
            [appended] = self.stores.of_partition(topic.name, request.partitionId).append_all([message], now_ms)
        except OSError as error:  # as Apache's broker answers (source: BrokerServiceServer.sendMessageP2B)
            _LOG.error("a message to %s could not be written: %s", topic.name, error)
            raise Refusal(Code.INTERNAL_SERVER_ERROR, f"Put message failed: {error}") from error
        return broker_pb2.SendMessageResponseB2P(
            success=True,
            errCode=Code.SUCCESS,
            errMsg=str(appended.message_id),  # old clients read the id from here
            requireAuth=self._authenticator.enabled,
            messageId=appended.message_id,
            appendTime=now_ms,
            appendOffset=appended.index_offset,
        )

    # Consumers

    def _register(self, request: Any, now_ms: int) -> Message:
        self._authenticate(request, now_ms)
        cursor, client_id = self._cursor_and_client(request)
        if request.opType == OP_UNREGISTER:
            self.ownership.owned_by(cursor, client_id)
            self.offsets.commit(cursor, consumed=request.readStatus == 0)
            self.ownership.release(cursor)
            return broker_pb2.RegisterResponseB2C(**_WELL, currOffset=-1)
        if request.opType != OP_REGISTER:
            raise Refusal(Code.BAD_REQUEST, f"opType {request.opType} is neither {OP_REGISTER} nor {OP_UNREGISTER}")
        store = self.stores.of_partition(cursor.topic, cursor.partition_id)
        tags = {tag.strip() for tag in request.filterCondStr if tag.strip()}
        hashes = tuple(sorted(map(java_string_hash, tags))) if tags else None
        self.ownership.take(cursor, Reader(client_id, hashes, 0), now_ms)
        wanted = request.currOffset if request.HasField("currOffset") else -1
        position = self.offsets.register(cursor, store.bounds, request.readStatus, wanted)
        return broker_pb2.RegisterResponseB2C(**_WELL, currOffset=position, maxOffset=store.max_offset)

    def _heartbeat(self, request: Any, now_ms: int) -> Message:
        self._authenticate(request, now_ms)
        client_id = checked_name(request.clientId, "clientId")
        group = checked_name(request.groupName, "groupName")
        failures = []
        for text in request.partitionInfo:
            try:
                broker, key = parse_subscription(text)
            except ProtocolError as error:
                raise Refusal(Code.BAD_REQUEST, str(error)) from error
            try:
                reader = self.ownership.owned_by(Cursor(group, key.topic, key.partition_id), client_id)
            except Refusal as refusal:
                failures.append(f"{int(refusal.code)}:{encode_subscription(broker, key)}")
                continue
            self.ownership.extend(reader, now_ms)
        return broker_pb2.HeartBeatResponseB2C(
            **_WELL,
            hasPartFailure=bool(failures),
            failureInfo=failures,
            requireAuth=self._authenticator.enabled,
        )

    def _fetch(self, request: Any, now_ms: int) -> bytes:
        cursor, client_id = self._cursor_and_client(request)
        reader = self.ownership.owned_by(cursor, client_id)
        self.ownership.extend(reader, now_ms)
        topic, store = self._topic(cursor.topic), self.stores.of_partition(cursor.topic, cursor.partition_id)
        manual = request.manualCommitOffset
        position, readable = self.offsets.begin_read(
            cursor, store.bounds, manual=manual, last_consumed=request.lastPackConsumed
        )
        end = store.max_offset
        # In manual mode a position can end up below the start again, where no data is served.
        position = max(position, store.min_offset) if readable else position
        if not readable or position >= end:
            raise _nothing_to_read(f"offset {position} is the end")
        filtered = reader.tag_hashes is not None
        budget = entry_budget(topic.partitions, filtered=filtered) * INDEX_ENTRY_BYTES
        entries = store.entries(position, min(end, position + budget))
        if self.faults.half_packs:
            entries = entries[: (len(entries) + 1) // 2]
        limit = LATER_FETCH_BYTES if reader.data_position >= 0 else FIRST_FETCH_BYTES
        pack = choose_pack(entries, cursor.partition_id, reader.tag_hashes, limit, store.data_min)
        index_bytes = pack.entries_read * INDEX_ENTRY_BYTES
        self.offsets.end_read(cursor, index_bytes, manual=manual, empty=pack.empty)
        if pack.data_end is not None:
            # Only TubeMQ's memory answers this way, and data in memory has not expired.
            if pack.empty and self.faults.advancing_404 and position + index_bytes >= end:
                raise _nothing_to_read("no message of this partition up to the end")
            reader.data_position = pack.data_end
        messages = store.wire_bytes(pack)
        if messages and self.faults.corrupt_checksums:
            self.faults.corrupt_checksums -= 1
            changed = bytearray(messages)
            changed[CHECKSUM_BYTE] ^= 1
            messages = bytes(changed)
        around = broker_pb2.GetMessageResponseB2C(
            **_WELL,
            currOffset=position,
            minLimitTime=0,
            escFlowCtrl=False,
            # Entries without data leave the reader's data position unchanged, even NO_DATA_POSITION.
            currDataDlt=store.data_max - reader.data_position,
            requireSlow=filtered and end - position - index_bytes < SLOW_BUDGETS * budget,
            maxOffset=end,
        )
        # The store has the messages in wire form, and the order of fields is free.
        return around.SerializeToString() + messages

    def _commit(self, request: Any, now_ms: int) -> Message:
        cursor, client_id = self._cursor_and_client(request)
        self._topic_of_partition(cursor.topic, cursor.partition_id)
        reader = self.ownership.owner(cursor)
        if reader is None or reader.client_id != client_id:
            raise Refusal(Code.UNAUTHORIZED, f"{client_id} is not registered for {cursor}")
        consumed = request.lastPackConsumed if request.HasField("lastPackConsumed") else True
        store = self.stores.of_partition(cursor.topic, cursor.partition_id)
        position = self.offsets.commit(cursor, consumed=consumed)
        return broker_pb2.CommitOffsetResponseB2C(**_WELL, currOffset=position, maxOffset=store.max_offset)

    # Checks

    def _authenticate(self, request: Any, now_ms: int) -> None:
        token = request.authInfo.visitAuthorizedToken
        if self.settings.check_visit_token and token not in self.catalogue.visit_tokens:
            raise Refusal(Code.CERTIFICATE_FAILURE, "the visit token is not one that the master gave")
        if self._authenticator.enabled:
            self._authenticator.check_joined(request.authInfo.authAuthorizedToken, now_ms)

    def _cursor_and_client(self, request: Any) -> tuple[Cursor, str]:
        client_id = checked_name(request.clientId, "clientId")
        group = checked_name(request.groupName, "groupName")
        return Cursor(group, self._topic(request.topicName).name, request.partitionId), client_id

    def _topic(self, name: str) -> TopicConfig:
        topic = self.catalogue.topic(name.strip())
        if topic is None:
            raise Refusal(Code.FORBIDDEN, f"topic {name} does not exist on this broker")
        return topic

    def _topic_of_partition(self, name: str, partition_id: int) -> TopicConfig:
        topic = self._topic(name)
        if not topic.has_partition(partition_id):
            raise Refusal(Code.FORBIDDEN, f"topic {topic.name} has no partition {partition_id}")
        return topic


def _nothing_to_read(text: str) -> Refusal:
    return Refusal(Code.NOT_FOUND, text, wait_ms=-1)  # the broker does not say how long to wait
