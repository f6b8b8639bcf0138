"""Stores: what goes in comes out, survives being opened again, and is repaired after a crash."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedded_tubemq.storage.packs import Pack, choose_pack
from embedded_tubemq.storage.records import Record, encode_record
from embedded_tubemq.storage.store import NewMessage, Store
from tests.embedded_tubemq.machines import START_MS
from tubeclient.wire.proto import broker_pb2

UNIT = 28


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed store with ten messages; message n has n + 1 bytes."""
    store = Store(tmp_path / "store", START_MS)
    for n in range(10):
        store.append(NewMessage(n % 3, bytes([n]) * (n + 1), tag_hash=n), START_MS + n)
    store.close()
    return tmp_path / "store"


def payloads(store: Store) -> list[bytes]:
    return [record.payload for record in store.records(store.min_offset, store.max_offset)]


def served(store: Store, pack: Pack) -> list[bytes]:
    around = broker_pb2.GetMessageResponseB2C(success=True, errCode=200, errMsg="OK!").SerializeToString()
    parsed = broker_pb2.GetMessageResponseB2C.FromString(around + store.wire_bytes(pack))
    return [message.payLoadData for message in parsed.messages]


EXPECTED = [bytes([n]) * (n + 1) for n in range(10)]


def test_a_store_opened_again_holds_the_same_and_goes_on(folder: Path) -> None:
    store = Store(folder, START_MS)
    assert payloads(store) == EXPECTED
    assert store.append(NewMessage(0, b"next"), START_MS).index_offset == 10 * UNIT
    assert payloads(store) == [*EXPECTED, b"next"]
    ids = [record.message_id for record in store.records(0, store.max_offset)]
    assert len(set(ids)) == 11
    store.close()


def test_many_at_once_are_the_same_as_one_by_one(tmp_path: Path) -> None:
    store = Store(tmp_path, START_MS)
    appended = store.append_all((NewMessage(n % 3, bytes([n]) * (n + 1)) for n in range(10)), START_MS)
    assert [item.index_offset for item in appended] == [n * UNIT for n in range(10)]
    assert payloads(store) == EXPECTED
    # More than are written at once.
    store.append_all((NewMessage(0, b"x") for _ in range(4_001)), START_MS)
    assert store.max_offset == 4_011 * UNIT
    assert store.records(4_010 * UNIT, 4_011 * UNIT)[0].index_offset == 4_010 * UNIT
    store.close()


def test_wire_bytes_follow_a_file_that_grows_and_shrinks(folder: Path) -> None:
    store = Store(folder, START_MS)
    for _ in range(2):
        pack = choose_pack(store.entries(0, store.max_offset), 0, None, 1 << 20)
        assert served(store, pack) == EXPECTED[::3]
        store.append(NewMessage(1, b"more"), START_MS)
    store.truncate(3 * UNIT)
    store.append(NewMessage(0, b"other"), START_MS)
    pack = choose_pack(store.entries(0, store.max_offset), 0, None, 1 << 20)
    assert served(store, pack) == [EXPECTED[0], b"other"]
    store.close()


def test_retention_survives_and_never_goes_back_or_beyond_the_end(folder: Path) -> None:
    store = Store(folder, START_MS)
    store.expire(3 * UNIT + 5)
    store.expire(UNIT)
    store.close()
    store = Store(folder, START_MS)
    assert (store.min_offset, store.max_offset) == (3 * UNIT, 10 * UNIT)
    assert store.data_min == int(store.entries(3 * UNIT, 4 * UNIT)["position"][0])
    store.expire(99 * UNIT)
    assert store.bounds == (10 * UNIT, 10 * UNIT)
    assert store.data_min == store.data_max
    store.close()


def test_data_expires_before_its_index(folder: Path) -> None:
    store = Store(folder, START_MS)
    store.expire(UNIT)
    store.expire_data(4 * UNIT + 5)
    store.close()
    store = Store(folder, START_MS)
    assert store.bounds == (UNIT, 10 * UNIT)
    assert store.data_min == int(store.entries(4 * UNIT, 5 * UNIT)["position"][0])
    assert payloads(store) == EXPECTED[4:]
    store.expire(2 * UNIT)
    assert (store.min_offset, payloads(store)) == (2 * UNIT, EXPECTED[4:])
    store.truncate(3 * UNIT)
    assert (store.bounds, store.data_min) == ((2 * UNIT, 3 * UNIT), store.data_max)
    store.append(NewMessage(0, b"new"), START_MS)
    assert payloads(store) == [b"new"]
    store.close()


def test_a_tail_is_lost_but_nothing_below_the_start(folder: Path) -> None:
    store = Store(folder, START_MS)
    store.expire(2 * UNIT)
    store.truncate(7 * UNIT + 3)
    assert payloads(store) == EXPECTED[2:7]
    store.truncate(0)
    assert store.bounds == (2 * UNIT, 2 * UNIT)
    store.append(NewMessage(0, b"longer than what was there before"), START_MS)
    assert store.data_min == int(store.entries(2 * UNIT, 3 * UNIT)["position"][0])
    store.truncate(0)
    store.close()
    store = Store(folder, START_MS)
    assert store.bounds == (2 * UNIT, 2 * UNIT)
    store.close()


# A whole record, but of another place in the index: nothing that a store writes at its end.
STRAY = encode_record(Record(0, 5 * UNIT, START_MS, 0, -1, 77, 0, b"stray"))


def cut(name: str, count: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size - count)


def extend(name: str, data: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.write(data)

    return damage


def repeat_first_entry(folder: Path) -> None:
    extend("index", (folder / "index").read_bytes()[:UNIT])(folder)


@pytest.mark.parametrize(
    ("damages", "left"),
    [
        ([cut("data", 1)], 9),  # the last record is torn, its entry is not
        ([cut("data", 100)], 8),
        ([cut("index", 5)], 10),  # a torn entry is written again from its record
        ([cut("index", 3 * UNIT)], 10),
        ([cut("index", 10 * UNIT)], 10),
        ([extend("index", b"\0" * 5)], 10),
        ([extend("index", b"\xff" * UNIT)], 10),
        ([repeat_first_entry], 10),
        ([extend("data", b"garbage")], 10),
        ([extend("data", STRAY)], 10),
        ([extend("data", b"\0" * 1000)], 10),
        ([cut("data", 1), cut("index", UNIT)], 9),
        ([cut("data", 40), cut("index", 2 * UNIT + 3)], 9),
    ],
)
def test_a_torn_end_is_repaired(folder: Path, damages: list[Callable[[Path], None]], left: int) -> None:
    for damage in damages:
        damage(folder)
    for _ in range(2):
        store = Store(folder, START_MS)
        assert payloads(store) == EXPECTED[:left]
        assert store.max_offset == left * UNIT
        store.close()
    store = Store(folder, START_MS)
    assert store.append(NewMessage(0, b"next"), START_MS).index_offset == left * UNIT
    assert payloads(store) == [*EXPECTED[:left], b"next"]
    store.close()


@settings(max_examples=80, deadline=None)
@given(data_bytes=st.integers(0, 1000), index_bytes=st.integers(0, 280))
def test_any_pair_of_cuts_leaves_whole_messages_and_the_right_ones(
    tmp_path_factory: pytest.TempPathFactory, data_bytes: int, index_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("cuts")
    store = Store(folder, START_MS)
    store.append_all((NewMessage(0, body) for body in EXPECTED), START_MS)
    ends = [int(entry["position"] + entry["size"]) for entry in store.entries(0, store.max_offset)]
    store.close()
    os.truncate(folder / "data", min(data_bytes, ends[-1]))
    os.truncate(folder / "index", index_bytes)
    store = Store(folder, START_MS)
    # Whatever the index kept, the records that are whole decide.
    assert payloads(store) == EXPECTED[: sum(end <= data_bytes for end in ends)]
    store.close()
    shutil.rmtree(folder)


@pytest.mark.parametrize("full", ["data", "index"])
def test_a_write_that_a_full_disk_cuts_leaves_nothing_behind(
    folder: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
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
    assert store.append(NewMessage(0, b"next"), START_MS).index_offset == 10 * UNIT
    assert payloads(store) == [*EXPECTED, b"next"]
    store.close()
    again = Store(folder, START_MS)
    assert payloads(again) == [*EXPECTED, b"next"]
    again.close()


def test_a_repair_whose_writes_are_cut_is_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that is nearly full takes a part of an entry first."""
    cut("index", 2 * UNIT + 5)(folder)
    write = os.write
    monkeypatch.setattr(os, "write", lambda to, data: write(to, data[:10]))
    store = Store(folder, START_MS)
    monkeypatch.undo()
    store.append(NewMessage(0, b"next"), START_MS)
    assert payloads(store) == [*EXPECTED, b"next"]
    store.close()
