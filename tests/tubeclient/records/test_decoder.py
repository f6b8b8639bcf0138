"""Many records at once: what is shed, encodings, places in bytes, types, and that nothing ever fails."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.records.generated import CASES, NAMES, Case
from tests.tubeclient.records.generated_changes import any_changes_cases
from tests.tubeclient.records.reading import GOOD, LOCAL, MOMENT, VARIANT, others, read, spec
from tubeclient.errors import ConfigurationError
from tubeclient.records.decoder import Decoded, Decoder
from tubeclient.records.spec import RecordSpec

PAIR = {"a": pa.int32(), "b": pa.string()}
MARK = b"\xef\xbb\xbf"
TEXTS: list[tuple[str, dict[str, Any], bytes]] = [
    ("json", {}, b'{"a":1,"b":"x"}'),
    ("csv", {}, b"1,x"),
    ("csv", {"escape": "\\"}, b"1,x"),
    ("kv", {"separator": "&"}, b"a=1&b=x"),
]


@pytest.mark.parametrize(("kind", "more", "text"), TEXTS)
def test_bom_and_line_ends_are_stripped(kind: str, more: dict[str, Any], text: bytes) -> None:
    """The decoder strips a byte order mark and line ends from each record."""
    assert others(spec(kind, PAIR, **more), {
        **dict.fromkeys((text, MARK + text, text + b"\n", text + b"\r\n\n", MARK + text + b"\r\n"), (1, "x")),
        **dict.fromkeys((b"", MARK, b"\r\n", MARK + b"\n"), "the record is empty"),
        None: "the record is null",
    }) == GOOD  # fmt: skip


@pytest.mark.parametrize("broken", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80"])
def test_bytes_that_are_no_text(broken: bytes) -> None:
    """Half a surrogate pair, and U+0000 as Java has it in two bytes, too."""
    for kind, more, text in TEXTS:
        record = MARK + text[:1] + broken + text[1:]
        assert read(spec(kind, PAIR, **more), record) == ["the bytes are not UTF-8 text, at byte 4"]


def test_encodings() -> None:
    for name in ("UTF-8", "UTF-16", "UTF-16BE", "UTF-16LE", "US-ASCII", "ISO-8859-1", "GBK", "GB18030", "Big5"):
        letter = "中" if "中".encode(name, "replace").decode(name) == "中" else "a"
        one = spec("json", PAIR, encoding=name)
        codec = "UTF-16BE" if name == "UTF-16" else name  # Java's without a mark; Python's is the machine's
        good = f'{{"a":1,"b":"{letter}"}}\r\n'.encode(codec)
        bad = f'{{"b":"{letter}","a":x}}'.encode(codec)
        place = len(f'{{"b":"{letter}","a":'.encode(codec))
        assert read(one, good, bad) == [(1, letter), f"the text is not JSON, at byte {place}"]
    marked = '{"a":1,"b":"中"}'.encode("utf-16-le"), '{"b":"中","a":"é"}'.encode("utf-16-be")
    assert read(spec("json", PAIR, encoding="UTF-16"), b"\xff\xfe" + marked[0], b"\xfe\xff" + marked[1]) == [
        (1, "中"),
        "the value of a is not of type int, at byte 28",
    ]
    assert read(spec("json", PAIR, encoding="GBK"), b'{"b":"\xff\xff"}') == ["the bytes are not GBK text, at byte 6"]
    assert read(spec("json", PAIR, encoding="UTF-16BE"), b"{") == ["the bytes are not UTF-16BE text, at byte 0"]


def test_a_place_is_a_byte_of_the_record() -> None:
    record = MARK + '{"b":"é😀中","a":true}'.encode()
    (reason,) = read(spec("json", PAIR), record)
    place = int(reason.rpartition(" ")[2])
    assert record[place:] == b"true}"


def test_the_type_is_the_schemas() -> None:
    kinds = {"a": pa.int8(), "l": pa.list_(pa.decimal128(3, 1)), "m": pa.map_(pa.string(), MOMENT), "v": VARIANT}
    one = spec("json", kinds, required=("a",))
    decoder = Decoder(one, core=False)
    assert decoder.type == pa.struct([(name, kinds[name]) for name in "alm"] + [("v", pa.string())])
    decoded = decoder.decode(pa.array([], pa.binary()))
    assert decoded.records.type == decoder.type
    assert decoded.reasons.type == pa.string()
    decoded = decoder.decode(pa.array([b"{", b"{", None], pa.binary()))
    assert decoded.records.null_count == 3


def test_slices_are_read_as_they_are() -> None:
    values = pa.array([b"x", b'{"a":1}', None, b'{"a":2}', b"y"], pa.binary())
    decoded = Decoder(spec("json", PAIR), core=False).decode(values.slice(1, 3))
    assert decoded.records.to_pylist() == [{"a": 1, "b": None}, None, {"a": 2, "b": None}]
    assert decoded.reasons.to_pylist() == [None, "the record is null", None]


def test_a_spec_can_be_pickled() -> None:
    one = spec("kv", PAIR, options={"nullValue": "-"}, keys=("a",))
    assert pickle.loads(pickle.dumps(one)) == one


def test_types_that_a_kind_does_not_have() -> None:
    nested = (pa.list_(pa.int8()), pa.map_(pa.string(), pa.int8()), pa.struct([("x", pa.int8())]), pa.binary(), VARIANT)
    for kind in ("csv", "kv", "canal-json"):
        for one in nested:
            with pytest.raises(ConfigurationError, match=rf"^column c is .*, a type that {kind} does not have$"):
                Decoder(spec(kind, {"c": one}))
    for one in nested:
        Decoder(spec("json", {"c": one}), core=False)
    deep = pa.int8()
    for _ in range(60):
        deep = pa.list_(deep)
    for one, words in (
        (pa.uint8(), "has the type uint8"),
        (pa.timestamp("ms"), "has the type timestamp"),
        (pa.timestamp("us", "Europe/Berlin"), "has the type timestamp"),
        (pa.decimal128(3, -1), "has the type decimal128"),
        (pa.list_(pa.large_string()), "has the type large_string"),
        (pa.map_(pa.list_(pa.int8()), pa.int8()), "a map whose keys are array<tinyint>"),
        (pa.struct([("x", pa.int8()), ("x", pa.int8())]), "two fields of the same name"),
        (deep, "more than 50 types"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            Decoder(spec("json", {"c": one}))


def test_what_a_decoder_is_not_made_of() -> None:
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"kind": "orc"}, "records of kind orc are not supported; use one of json, csv, kv"),
        ({"encoding": "EBCDIC-X"}, "encoding is 'EBCDIC-X'"),
        ({"time_zone": "Mars/Base"}, "'Mars/Base' is not a time zone"),
        ({"options": {"timestampFormat": "yyyy-DDD"}}, "timestampFormat is 'yyyy-DDD': it has DDD"),
        ({"options": {"allowComments": "1"}}, "allowComments is '1'"),
    )
    for more, words in cases:
        with pytest.raises(ConfigurationError, match=words):
            Decoder(spec(**{"kind": "json", "columns": PAIR, **more}))


@given(CASES)
def test_no_record_ever_fails(case: Case) -> None:
    """Each is good or has a reason, alone as with others."""
    decoder = Decoder(case.spec, core=False)
    whole = decode(decoder, case.records)
    whole.records.validate(full=True)
    assert whole.records.type == decoder.type
    for at, record in enumerate(case.records):
        assert whole.records[at].is_valid != whole.reasons[at].is_valid
        alone = decode(decoder, [record])
        assert alone.reasons[0] == whole.reasons[at]
        if record is not None and (reason := whole.reasons[at].as_py()) and ", at byte " in reason:
            assert 0 <= int(reason.rpartition(" ")[2]) <= len(record)


@given(
    st.sampled_from(["json", "csv", "kv"]),
    st.binary() | st.text("{}[]\":,=\\'/*\n\r \t0189.eE+-tfnNI\0aéÿ", max_size=60).map(str.encode),
    st.sampled_from(["UTF-8", "UTF-16", "GBK", "Big5", "GB18030", "US-ASCII"]),
    st.sampled_from([None, "\\"]),
    st.booleans(),
)
def test_no_bytes_ever_fail(kind: str, record: bytes, encoding: str, escape: str | None, lax: bool) -> None:
    columns = {name: pa.string() for name in NAMES} | {"a": pa.float32(), "b": MOMENT, "t": LOCAL}
    names = ("allowComments", "allowUnquotedFieldNames", "allowUnquotedControlChars", "allowNumericLeadingZeros")
    sheds = ("ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace")
    options = dict.fromkeys({"json": names, "csv": sheds * (escape is None), "kv": ()}[kind], "true") if lax else {}
    one = spec(kind, columns, encoding=encoding, escape=escape, options=options)
    decoded = decode(Decoder(one, core=False), [record])
    assert decoded.records[0].is_valid != decoded.reasons[0].is_valid


@given(any_changes_cases())
def test_no_bytes_ever_fail_as_changes(case: Case) -> None:
    decoded = decode(Decoder(case.spec, core=False), case.records)
    decoded.records.validate(full=True)
    assert decoded.records.is_valid().equals(decoded.reasons.is_null())


BOMBS = {
    "depth": b'{"a":' + b"[" * 1_000_000,
    "name": b'{"' + b"n" * (1 << 20) + b'":1}',
    "fields": b"{" + b",".join(b'"f%d":1' % n for n in range(20_000)) + b"]",
    "digits": b'{"a":' + b"1" * 1_000_000 + b"}",
    "text": b'{"b":"' + b"\\u0041" * 50_000,
    "space": b" " * 1_000_000,
    "commas": b"," * 1_000_000,
    "quotes": b'"' * 1_000_001,
    "escapes": b"\\" * 1_000_001,
    "pairs": b"a=1&" * 250_000,
    "lines": b"\n" * 1_000_000 + b"x",
}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize(("kind", "more"), [(kind, more) for kind, more, _ in TEXTS])
def test_bombs_take_little_memory(kind: str, more: dict[str, Any], bomb: str) -> None:
    record = BOMBS[bomb]
    values = pa.array([record], pa.binary())
    decoder = Decoder(spec(kind, PAIR, **more), core=False)
    tracemalloc.start()
    try:
        decoded = decoder.decode(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert decoded.reasons.null_count == 0
    assert peak < 20 * len(record) + (1 << 20)


def decode(decoder: Decoder, records: list[bytes | None]) -> Decoded:
    return decoder.decode(pa.array(records, pa.binary()))


def test_the_example() -> None:
    """Of Decoder's docstring."""
    decoder = Decoder(RecordSpec(kind="json", schema=pa.schema([("id", pa.int64())])), core=False)
    decoded = decoder.decode(pa.array([b'{"id": 1}', b'{"id": "x"}']))
    assert decoded.records.to_pylist() == [{"id": 1}, None]
    assert decoded.reasons.to_pylist() == [None, "the value of id is not of type bigint, at byte 7"]
