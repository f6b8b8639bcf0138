"""JSON of web calls is the same, whoever reads or writes it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.wire.web_json import parse_json

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def slow(body: bytes) -> object:
    return json.loads(body, strict=False)


def outcome(parse: Callable[[bytes], object], body: bytes) -> object:
    try:
        return repr(parse(body))
    except (ValueError, RecursionError):
        return "an error"


@given(values, st.booleans())
def test_json_is_json(value: object, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    assert parse_json(body) == value


@given(st.text(alphabet='{}[]":,0 \n\t\\un1eE.-', max_size=18).map(str.encode) | st.binary(max_size=30))
def test_whatever_else_comes_is_the_same_or_an_error_of_both(body: bytes) -> None:
    assert outcome(parse_json, body) == outcome(slow, body)


@pytest.mark.parametrize("body", [b'{"errMsg": "a\nb"}', b"[" * 100_000, b'"\\ud800"', b"NaN"])
def test_what_the_faster_one_does_not_take(body: bytes) -> None:
    assert outcome(parse_json, body) == outcome(slow, body)
