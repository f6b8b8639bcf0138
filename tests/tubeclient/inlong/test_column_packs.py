"""Packs made from columns: they hold all records in order, stay within their bounds, and are read back."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.inlong import records_of
from tubeclient.inlong.blocks import most_packed_by_snappy
from tubeclient.inlong.column_packs import ColumnPack, PackBounds, encode_columns

COMMON = {"groupId": "g", "streamId": "s"}
WIDE = PackBounds(1_000, 1 << 20)

bodies = st.one_of(st.binary(min_size=1, max_size=30), st.binary(min_size=1, max_size=3).map(lambda part: part * 90))
times = st.sampled_from(["dt=1", "dt=2", "dt=1&k=\x00ü😀"])


def encode(rows: list[tuple[bytes, str]], bounds: PackBounds = WIDE) -> list[ColumnPack]:
    values = pa.array([body for body, _ in rows], pa.binary())
    own = pa.array([text for _, text in rows], pa.string())
    return list(encode_columns(values, own, COMMON, bounds, made_ms=5))


def decoded(packs: list[ColumnPack]) -> list[tuple[bytes, dict[str, str]]]:
    return [(one.body, one.attributes) for pack in packs for one in records_of(pack.body, {})]


def parsed(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split("&"))


@given(st.lists(st.tuples(bodies, times), max_size=40), st.integers(1, 12), st.integers(1, 400))
def test_packs_hold_all_records_within_their_bounds(
    rows: list[tuple[bytes, str]], max_records: int, max_bytes: int
) -> None:
    packs = encode(rows, PackBounds(max_records, max_bytes))
    assert decoded(packs) == [(body, {**COMMON, **parsed(text)}) for body, text in rows]
    assert [pack.first for pack in packs] + [len(rows)] == [0, *(pack.first + pack.records for pack in packs)]
    sizes = [len(body) + len(text.encode()) + 8 for body, text in rows]
    parts = [sizes[pack.first : pack.first + pack.records] for pack in packs]
    assert all(len(part) <= max_records and (sum(part) <= max_bytes or len(part) == 1) for part in parts)
    # No pack could have taken the first record of the next one.
    assert all(len(one) == max_records or sum(one) + next_one[0] > max_bytes for one, next_one in pairwise(parts))


@given(st.integers(1, 300), st.integers(200, 20_000), st.integers(1, 3_000), st.booleans())
def test_packs_of_several_records_fit_a_message_however_badly_they_compress(
    count: int, message_bytes: int, size: int, same: bool
) -> None:
    rng = random.Random(count)
    rows = [(rng.randbytes(size), "dt=1" if same else f"dt={number}") for number in range(count)]
    bounds = WIDE.within(message_bytes - len("groupId=g&streamId=s"))
    assert most_packed_by_snappy(bounds.max_bytes) < message_bytes
    for pack in encode(rows, bounds):
        assert len(pack.body) <= message_bytes or pack.records == 1


def test_attributes_too_long_for_version_1_are_each_records_own() -> None:
    text = "dt=1&k=" + "x" * 65_535
    [pack] = encode([(b"a", text)])
    assert pack.body[:2] == b"\x0f\x03"
    assert decoded([pack]) == [(b"a", {**COMMON, **parsed(text)})]
