"""One fetch: reads messages from the group's position, builds the answer, and moves the position."""

from __future__ import annotations

from embedded_tubemq.broker.offsets import Cursor, GroupOffsets
from embedded_tubemq.broker.ownership import Reader
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.faults import Faults
from embedded_tubemq.common.refusal import Refusal
from embedded_tubemq.storage.packs import FIRST_FETCH_BYTES, LATER_FETCH_BYTES, choose_pack, entry_budget
from embedded_tubemq.storage.records import CHECKSUM_BYTE_IN_WIRE
from embedded_tubemq.storage.stores import StoreDirectory
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient.wire.proto import broker_pb2

__all__ = ["Fetcher"]

_SLOW_ENTRIES = 10
"""A filtered reader must slow down when fewer than this many budgets of index entries are left."""


class Fetcher:
    """Fetches for one broker."""

    def __init__(self, stores: StoreDirectory, offsets: GroupOffsets, faults: Faults) -> None:
        self._stores = stores
        self._offsets = offsets
        self._faults = faults

    def fetch(self, cursor: Cursor, reader: Reader, topic: TopicConfig, *, manual: bool, last_consumed: bool) -> bytes:
        """Answer a fetch, or refuse it with 404."""
        store = self._stores.of_partition(cursor.topic, cursor.partition_id)
        position, readable = self._offsets.begin_read(cursor, store.bounds, manual=manual, last_consumed=last_consumed)
        if not readable:
            raise _nothing_to_read(f"offset {position} is the end")
        # In manual mode a position can end up below the start again, where no data is served.
        position = max(position, store.min_offset)
        end = store.max_offset
        budget = entry_budget(topic.partitions, filtered=reader.tag_hashes is not None)
        entries = store.entries(position, min(end, position + budget * INDEX_ENTRY_BYTES))
        if self._faults.half_packs:
            entries = entries[: (len(entries) + 1) // 2]
        limit = LATER_FETCH_BYTES if reader.data_position >= 0 else FIRST_FETCH_BYTES
        pack = choose_pack(entries, cursor.partition_id, reader.tag_hashes, limit, store.data_min)
        index_bytes = pack.entries_read * INDEX_ENTRY_BYTES
        self._offsets.end_read(cursor, index_bytes, manual=manual, empty=pack.empty)
        if pack.data_end is not None:
            # Only TubeMQ's memory answers this way, and data in memory has not expired.
            if pack.empty and self._faults.advancing_404 and position + index_bytes >= end:
                raise _nothing_to_read("no message of this partition up to the end")
            reader.data_position = pack.data_end
        messages = store.wire_bytes(pack)
        if messages and self._faults.corrupt_checksums:
            self._faults.corrupt_checksums -= 1
            messages = _with_wrong_checksum(messages)
        around = broker_pb2.GetMessageResponseB2C(
            success=True,
            errCode=Code.SUCCESS,
            errMsg="OK!",
            currOffset=position,
            minLimitTime=0,
            escFlowCtrl=False,
            # Entries without data leave the reader's data position unchanged, even NO_DATA_POSITION.
            currDataDlt=store.data_max - reader.data_position,
            requireSlow=reader.tag_hashes is not None
            and end - position - index_bytes < _SLOW_ENTRIES * budget * INDEX_ENTRY_BYTES,
            maxOffset=end,
        )
        # The store has the messages in wire form, and the order of fields is free.
        return around.SerializeToString() + messages


def _nothing_to_read(text: str) -> Refusal:
    return Refusal(Code.NOT_FOUND, text, wait_ms=-1)  # the broker does not say how long to wait


def _with_wrong_checksum(wire: bytes) -> bytes:
    changed = bytearray(wire)
    changed[CHECKSUM_BYTE_IN_WIRE] ^= 1
    return bytes(changed)
