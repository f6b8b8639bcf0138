"""Stores: what goes in comes out, survives being opened again, and is repaired after a crash."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq.storage.layout import INDEX_DTYPE, PREFIX_BYTES
from embedded_tubemq.storage.store import NewMessage, Store, choose_pack
from tests.embedded_tubemq.machines import START_MS
from tests.tubeclient.stored import records_of
from tubeclient.wire.payload import checksum
from tubeclient.wire.proto import broker_pb2

UNIT = 28
EXPECTED = [bytes([n]) * (n + 1) for n in range(10)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed store with ten messages; message n has n + 1 bytes."""
    store = Store(tmp_path / "store", START_MS)
    store.append_all((NewMessage(n % 3, EXPECTED[n], tag_hash=n) for n in range(10)), START_MS)
    store.close()
    return tmp_path / "store"


def payloads(store: Store) -> list[bytes]:
    return [record.payload for record in records_of(store, store.min_offset)]


def served(store: Store, partition: int) -> list[bytes]:
    pack = choose_pack(store.entries(0, store.max_offset), partition, None, 1 << 20)
    around = broker_pb2.GetMessageResponseB2C(success=True, errCode=200, errMsg="OK!").SerializeToString()
    found = list(broker_pb2.GetMessageResponseB2C.FromString(around + store.wire_bytes(pack)).messages)
    assert all(message.checkSum == checksum(message.payLoadData) for message in found)
    return [message.payLoadData for message in found]


def test_reopened_store(folder: Path) -> None:
    """A reopened store has the same messages and appends at the next offset."""
    store = Store(folder, START_MS)
    assert payloads(store) == EXPECTED
    assert store.append_all([NewMessage(0, b"next", flag=-5, tag_hash=-1)], START_MS)[0].index_offset == 10 * UNIT
    found = records_of(store)
    assert found[-1]._replace(message_id=0) == (0, 10 * UNIT, -1, 0, -5, b"next")
    ids = [record.message_id for record in found]
    assert len(set(ids)) == 11
    assert ids != sorted(ids)
    store.close()


def test_fetches_after_growth_and_truncation(folder: Path) -> None:
    """Fetches return the current messages after a store grows or is truncated."""
    store = Store(folder, START_MS)
    for _ in range(2):
        assert served(store, 0) == EXPECTED[::3]
        store.append_all([NewMessage(1, b"more")], START_MS)
    store.append_all((NewMessage(2, b"x") for _ in range(4_001)), START_MS)
    assert served(store, 2)[-4_001:] == [b"x"] * 4_001
    store.truncate(3 * UNIT)
    store.append_all([NewMessage(0, b"other")], START_MS)
    assert served(store, 0) == [EXPECTED[0], b"other"]
    store.close()


def test_retention_never_goes_back(folder: Path) -> None:
    """Retention survives a reopening, never goes back, and never passes the end."""
    store = Store(folder, START_MS)
    store.expire(3 * UNIT + 5)
    store.expire(UNIT)
    store.expire_data(4 * UNIT + 5)
    store.close()
    store = Store(folder, START_MS)
    assert store.bounds == (3 * UNIT, 10 * UNIT)
    assert payloads(store) == EXPECTED[4:]
    store.expire(99 * UNIT)
    assert store.bounds == (10 * UNIT, 10 * UNIT)
    assert store.data_min == store.data_max
    store.close()


@pytest.mark.parametrize("full", ["data", "index"])
def test_full_disk_leaves_no_partial_write(folder: Path, monkeypatch: pytest.MonkeyPatch, full: str) -> None:
    """The process lives on, and takes messages again when there is room."""
    store = Store(folder, START_MS)
    sizes = [(folder / name).stat().st_size for name in ("data", "index")]
    fd, write, room = {"data": store._data_fd, "index": store._index_fd}[full], os.write, [10]

    def cut(to: int, data: bytes | memoryview) -> int:
        if to != fd:
            return write(to, data)
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(to, data[: room.pop()])

    monkeypatch.setattr(os, "write", cut)
    with pytest.raises(OSError, match="No space left"):
        store.append_all([NewMessage(0, b"lost"), NewMessage(1, b"lost too")], START_MS)
    monkeypatch.undo()
    assert [(folder / name).stat().st_size for name in ("data", "index")] == sizes
    assert store.append_all([NewMessage(0, b"next")], START_MS)[0].index_offset == 10 * UNIT
    store.close()
    again = Store(folder, START_MS)
    assert payloads(again) == [*EXPECTED, b"next"]
    again.close()


ENTRIES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50), st.sampled_from([-1, 5, 6])), max_size=30)


@given(ENTRIES, st.sampled_from([None, (5,), (5, 6)]), st.integers(1, 2000), st.integers(0, 30))
def test_a_pack_is_what_a_loop_over_the_entries_takes(
    items: list[tuple[int, int, int]], hashes: tuple[int, ...] | None, limit: int, expired: int
) -> None:
    rows, position = [], 1000
    for partition, payload, tag_hash in items:
        rows.append((partition, position, PREFIX_BYTES + payload, tag_hash, 0))
        position += PREFIX_BYTES + payload
    entries = np.array(rows, INDEX_DTYPE)
    data_min = rows[expired][1] if expired < len(rows) else position

    taken, total, read, data_end = [], 0, 0, None
    for partition, start, size, tag_hash, _ in rows:
        read += 1
        if start < data_min:
            continue
        data_end = start + size
        if partition == 1 and (hashes is None or tag_hash in hashes):
            taken.append((start, start + size))
            total += size - PREFIX_BYTES + 52  # TubeMQ counts its header
            if total >= limit:
                break

    pack = choose_pack(entries, 1, hashes, limit, data_min)
    assert list(zip(pack.starts.tolist(), pack.ends.tolist(), strict=True)) == taken
    assert (pack.entries_read, pack.data_end) == (read, data_end)
