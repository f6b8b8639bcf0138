"""JSON of web calls is the same, whoever reads or writes it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.wire import web_json
from tubeclient.wire.web_json import parse_json, write_json

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


@given(values | st.integers(1 << 64) | st.just("half a pair: \ud800"))
def test_what_is_written_is_read_by_anybody(value: object) -> None:
    assert json.loads(write_json({"value": value})) == {"value": value}


def test_what_json_has_not_is_not_written() -> None:
    with pytest.raises(TypeError):
        write_json({"value": b"bytes"})


@given(st.text(alphabet='{}[]":,0 \n\t\\un1eE.-', max_size=18).map(str.encode) | st.binary(max_size=30))
def test_whatever_else_comes_is_the_same_or_an_error_of_both(body: bytes) -> None:
    assert outcome(parse_json, body) == outcome(slow, body)


@pytest.mark.parametrize("body", [b'{"errMsg": "a\nb"}', b"[" * 100_000, b'"\\ud800"', b"NaN"])
def test_what_the_faster_one_does_not_take(body: bytes) -> None:
    assert outcome(parse_json, body) == outcome(slow, body)


def test_the_faster_one_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert vars(web_json)["orjson"] is orjson
    monkeypatch.setattr(json, "loads", None)
    monkeypatch.setattr(json, "dumps", None)
    assert parse_json(write_json({"a": [1]})) == {"a": [1]}


def test_pythons_own_is_used_where_it_is_not() -> None:
    program = (
        "import sys; sys.modules['orjson'] = None\n"
        "from tubeclient.wire.web_json import parse_json, write_json\n"
        "raise SystemExit(parse_json(write_json([1])) != [1])"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
