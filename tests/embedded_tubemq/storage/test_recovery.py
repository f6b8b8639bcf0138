"""What is left after a power cut: any tail of any file may be missing, zeros, or what nobody wrote."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage, Store
from tests.embedded_tubemq.machines import START_MS
from tests.examples import examples
from tests.tubeclient.stored import records_of
from tubeclient import ConfigurationError

UNIT = 28
MESSAGES = [bytes([n + 1]) * (n * 7 % 5 + 1) for n in range(10)]

KEPT = ("cut", 0, 0)
DAMAGE = st.tuples(
    st.sampled_from(["cut", "zeros"]), st.integers(0, 500), st.sampled_from([0, 0, 1, 27, 28, 60, 8_192])
)
"""How many bytes of the end are lost, or are zeros; and how many zeros come behind."""
STATES = st.sampled_from([None, b"", b'{"minOff', b'{"minOffset": 84, "dataMin": 0}'])


def damaged(path: Path, damage: tuple[str, int, int]) -> tuple[bytes, bytes]:
    """The file's bytes before and after it was damaged so."""
    kind, lost, more = damage
    before = path.read_bytes()
    left = before[: max(0, len(before) - lost)]
    after = left + bytes(more + (len(before) - len(left)) * (kind == "zeros"))
    path.write_bytes(after)
    return before, after


def whole(files: tuple[bytes, bytes], ends: list[int]) -> int:
    """How many of the parts that end there are as they were."""
    before, after = files
    return sum(after[:end] == before[:end] for end in ends)


@settings(max_examples=examples(300), deadline=None)
@given(index=DAMAGE, data=DAMAGE, state=STATES)
@example(index=("cut", 0, UNIT), data=KEPT, state=None)
@example(index=KEPT, data=("cut", 500, 0), state=None)
@example(index=("cut", 500, 0), data=KEPT, state=None)
@example(index=("zeros", 500, 0), data=("zeros", 500, 0), state=b'{"minOffset": 84, "dataMin": 0}')
@example(index=KEPT, data=("zeros", 3, 0), state=b"")
def test_damaged_tails(
    tmp_path_factory: pytest.TempPathFactory,
    index: tuple[str, int, int],
    data: tuple[str, int, int],
    state: bytes | None,
) -> None:
    """A damaged store returns only messages that were written, and its offsets never go back."""
    folder = tmp_path_factory.mktemp("store")
    store = Store(folder, START_MS)
    store.append_all((NewMessage(0, body) for body in MESSAGES), START_MS)
    ends = [int(entry["position"] + entry["size"]) for entry in store.entries(0, store.max_offset)]
    store.close()
    left = damaged(folder / "index", index)
    # An entry ends in its time of receipt, whose last bytes are no matter, but a part of it is none at all.
    entries = min(whole(left, [UNIT * (n + 1) - 5 for n in range(10)]), len(left[1]) // UNIT)
    messages = whole(damaged(folder / "data", data), ends)
    if state is not None:
        (folder / "state.json").write_bytes(state)
    kept = min(entries, messages)
    begin = json.loads(state)["minOffset"] if state and state.endswith(b"}") else 0
    given_out = max(kept * UNIT, entries * UNIT, begin, 0 if entries else messages * UNIT)

    for _ in range(2):
        store = Store(folder, START_MS)
        assert [record.payload for record in records_of(store)] == MESSAGES[:kept]
        assert store.max_offset >= given_out
        if given_out == 0:
            assert store.max_offset == 0
        assert store.min_offset == (max(begin, 0) if kept else store.max_offset)
        store.close()
    store = Store(folder, START_MS)
    at = store.append_all([NewMessage(0, b"next")], START_MS)[0].index_offset
    store.close()
    store = Store(folder, START_MS)
    assert at >= given_out
    assert [record.payload for record in records_of(store)] == [*MESSAGES[:kept], b"next"]
    assert records_of(store)[-1].index_offset == at
    store.close()


def test_messages_that_nobody_was_told_of_are_cut_off(tmp_path: Path) -> None:
    """The process died between its two writes."""
    store = Store(tmp_path, START_MS)
    store.append_all((NewMessage(0, body) for body in MESSAGES), START_MS)
    store.close()
    os.truncate(tmp_path / "index", 7 * UNIT)
    store = Store(tmp_path, START_MS)
    assert store.append_all([NewMessage(0, b"next")], START_MS)[0].index_offset == 7 * UNIT
    assert [record.payload for record in records_of(store)] == [*MESSAGES[:7], b"next"]
    store.close()


@pytest.mark.parametrize("content", [b"", bytes(64), b'[["etl", "cli'])
@pytest.mark.parametrize("name", ["topics.json", "broker-1/offsets.json"])
def test_damaged_cluster_file(tmp_path: Path, name: str, content: bytes) -> None:
    """The error for a damaged file of the cluster names it and says to remove it."""
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as cluster:
        cluster.load("clicks", [NewMessage(0, b"kept")])

    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"{name} is damaged: it is not JSON. Remove it"):
        EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]).start()
    (tmp_path / name).unlink()
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as cluster:
        assert cluster.bounds("clicks").max_offset == 28
