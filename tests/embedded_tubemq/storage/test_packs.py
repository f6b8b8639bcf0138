"""The choice of a pack against a plain loop over the entries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_tubemq.storage.packs import choose_pack, entry_budget
from embedded_tubemq.storage.records import HEADER_BYTES, INDEX_DTYPE, WIRE_PREFIX_BYTES

OVERHEAD = HEADER_BYTES + WIRE_PREFIX_BYTES
ENTRIES = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 50), st.sampled_from([-1, 5, 6])), max_size=30)


@given(ENTRIES, st.sampled_from([None, (5,), (5, 6)]), st.integers(1, 2000), st.integers(0, 30))
def test_a_pack_is_what_a_loop_over_the_entries_takes(
    items: list[tuple[int, int, int]], hashes: tuple[int, ...] | None, limit: int, expired: int
) -> None:
    rows, position = [], 1000
    for partition, payload, tag_hash in items:
        rows.append((partition, position, OVERHEAD + payload, tag_hash, 0))
        position += OVERHEAD + payload
    entries = np.array(rows, INDEX_DTYPE)
    data_min = rows[expired][1] if expired < len(rows) else position

    taken, total, read, data_end = [], 0, 0, None
    for partition, start, size, tag_hash, _ in rows:
        read += 1
        if start < data_min:
            continue
        data_end = start + size
        if partition == 1 and (hashes is None or tag_hash in hashes):
            taken.append((start + HEADER_BYTES, start + size))
            total += size - WIRE_PREFIX_BYTES
            if total >= limit:
                break

    pack = choose_pack(entries, 1, hashes, limit, data_min)
    assert list(zip(pack.starts.tolist(), pack.ends.tolist(), strict=True)) == taken
    assert pack.empty == (not taken)
    assert (pack.entries_read, pack.data_end) == (read, data_end)


@pytest.mark.parametrize(("partitions", "plain"), [(1, 8000), (8, 8000), (10, 10_000), (20, 13_500)])
def test_how_many_entries_are_looked_at(partitions: int, plain: int) -> None:
    assert entry_budget(partitions, filtered=False) == plain
    assert entry_budget(partitions, filtered=True) == 3 * plain
