"""Records of Hypothesis: schemas, records that fit them, and such that were changed afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.tubeclient.records.reading import LOCAL, MOMENT
from tubeclient.records.spec import RecordSpec

NAMES = ("a", "b", "id", "Id", "na me", "é", "x=y", 'q"', "\\")

_INTS = {kind: 1 << kind.bit_width - 1 for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())}
_DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.integers(0, precision).map(lambda scale: pa.decimal128(precision, scale))
)
PLAIN = (
    st.sampled_from([*_INTS, pa.bool_(), pa.float32(), pa.float64(), pa.string(), pa.date32(), MOMENT, LOCAL])
    | _DECIMALS
)
NESTED = st.recursive(
    PLAIN | st.just(pa.binary()),
    lambda inner: (
        inner.map(pa.list_)
        | st.builds(pa.map_, st.sampled_from([pa.string(), pa.int32(), pa.date32()]), inner)
        | st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3).map(
            lambda of: pa.struct(list(of.items()))
        )
    ),
    max_leaves=5,
)
VARIANT = pa.field("", pa.string(), metadata={b"variant": b"true"})

PATTERNS = ("yyyy-MM-dd HH:mm:ss", "yyyyMMddHHmmss", "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "yyyy-MM-dd HH:mm:ss[.SSS][ XXX]")
ZONES = ("UTC", "Asia/Shanghai", "Europe/Berlin", "America/St_Johns")

RESCUES = st.sampled_from(["none", "none", "fields", "values"])

_TIMES = (
    st.datetimes().map(str)
    | st.datetimes().map(lambda time: time.isoformat() + "Z")
    | st.datetimes().map(lambda time: f"{time:%Y-%m-%d %H:%M:%S}")
)
_ODD = st.sampled_from(
    [
        *(
            "NaN",
            "Infinity",
            "-INF",
            "1e400",
            "1e-400",
            "0.1",
            "1e5",
            "-0",
            "007",
            "+1",
            "1" * 40,
            "1" * 1_001,
            "2024-02-30",
        ),
        *(
            "2024-03-31 02:30:00",
            "2024-10-27 02:30:00",
            "0000-01-01",
            "9999-12-31 23:59:59",
            "2024-01-02 03:04 Asia/Tokyo",
        ),
        *(
            "",
            " ",
            "null",
            "true",
            "False",
            '"',
            '""',
            "\\",
            "é",
            "😀",
            "\0",
            "\n",
            "\u2028",
            "\ufeff",
            "20240102030405",
        ),
    ]
)
TEXTS = st.text(max_size=8) | _ODD


def mostly(usual: st.SearchStrategy[str], other: st.SearchStrategy[str] = TEXTS) -> st.SearchStrategy[str]:
    """The core leaves a record with anything odd to the plain code; so few things are odd."""
    return st.integers(0, 15).flatmap(lambda chance: other if chance == 7 else usual)


@dataclass(frozen=True)
class Case:
    """A spec and records of it, not all of them good."""

    spec: RecordSpec
    records: list[bytes | None]


def plain_text(kind: pa.DataType) -> st.SearchStrategy[str]:
    """Texts that are mostly of the type."""
    if kind in _INTS:
        return st.integers(-_INTS[kind] - 1, _INTS[kind]).map(str)
    if kind in (pa.float32(), pa.float64()):
        return st.floats(width=32 if kind == pa.float32() else 64).map(str) | st.decimals(allow_nan=False).map(str)
    if pa.types.is_decimal(kind):
        most = 10 ** (kind.precision - kind.scale)
        return st.decimals(-most, most, places=min(kind.scale + 1, 38)).map(str)
    if kind == pa.bool_():
        return st.sampled_from(["true", "false"])
    if kind == pa.date32():
        return st.dates().map(str)
    return _TIMES if pa.types.is_timestamp(kind) else mostly(st.text("abc XYZ019.-éß中", max_size=8))


def json_text(kind: pa.DataType) -> st.SearchStrategy[str]:
    """JSON that is mostly of the type."""
    written: st.SearchStrategy[str]
    if pa.types.is_list(kind):
        written = st.lists(json_text(kind.value_type), max_size=3).map(lambda items: f"[{','.join(items)}]")
    elif pa.types.is_map(kind):
        pairs = st.dictionaries(plain_text(kind.key_type), json_text(kind.item_type), max_size=3)
        written = pairs.map(lambda pairs: _object(list(pairs.items())))
    elif pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        whole = st.tuples(*(json_text(one.type) for one in fields)).map(
            lambda values: [(one.name, value) for one, value in zip(fields, values, strict=True)]
        )
        more = st.sampled_from([[], [], [], [("more", "[0.10]")]])
        written = st.tuples(whole, more).map(lambda pairs: _object(pairs[0] + pairs[1]))
    elif kind in _INTS or kind in (pa.float32(), pa.float64(), pa.bool_()) or pa.types.is_decimal(kind):
        written = (
            plain_text(kind)
            .map(str.lower)
            .map(lambda text: {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(text, text))
        )
    elif kind == pa.binary():
        written = st.sampled_from(['""', '"AA=="', '"AAAA"', '"A"', '"-_8="'])
    else:
        written = plain_text(kind).map(_quoted)
    odd = st.just("null") | TEXTS.map(_quoted) | st.sampled_from(["0", "1.5", "[]", "{}", "true", "NaN"])
    return mostly(written, odd)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=len(text) % 2 == 0)


def _object(pairs: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{_quoted(name)}:{value}" for name, value in pairs) + "}"


@st.composite
def schemas(draw: Callable[..., Any], types: st.SearchStrategy[pa.DataType], variants: bool = False) -> pa.Schema:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    fields = []
    for name in names:
        field = pa.field(name, draw(types), nullable=draw(st.integers(0, 3)) > 0)
        if variants and draw(st.integers(0, 9)) == 0:
            field = VARIANT.with_name(name)
        fields.append(field)
    return pa.schema(fields)


@st.composite
def mutated(draw: Callable[..., Any], record: bytes) -> bytes:
    """A record as it is, or with a part cut, twice, or other bytes."""
    if draw(st.integers(0, 3)) != 2 or not record:
        return record
    start = draw(st.integers(0, len(record) - 1))
    end = draw(st.integers(start, min(len(record), start + 6)))
    put = draw(
        st.binary(max_size=3)
        | st.sampled_from([b"", record[start:end] * 2, b'"', b"\\", b"{", b"]", b",", b"=", b"\n", b"0", b"-", b" "])
    )
    whole: bytes = record[:start] + put + record[end:]
    return whole


def _times(draw: Callable[..., Any], names: tuple[str, ...]) -> dict[str, str]:
    options = {name: draw(st.sampled_from(PATTERNS[:3])) for name in names if draw(st.integers(0, 4)) == 0}
    if "dateFormat" in options:
        options["dateFormat"] = "yyyyMMdd"
    return options


@st.composite
def json_cases(draw: Callable[..., Any]) -> Case:
    schema = draw(schemas(NESTED, variants=True))
    options = _times(draw, ("timestampFormat", "dateFormat", "timestampNTZFormat"))
    own = {"time_zone": draw(st.sampled_from(ZONES)), "rescue": draw(RESCUES)}
    spec = RecordSpec(kind="json", schema=schema, options=options, **own)
    records = []
    for _ in range(draw(st.integers(1, 5))):
        pairs = [(one.name, draw(json_text(one.type))) for one in schema if draw(st.integers(0, 9))]
        more = draw(st.lists(st.tuples(st.sampled_from(NAMES) | TEXTS, json_text(pa.string())), max_size=2))
        records.append(_object(draw(st.permutations([*pairs, *more])) if draw(st.integers(0, 3)) == 0 else pairs))
    return Case(spec, draw(_written(records)))


@st.composite
def csv_cases(draw: Callable[..., Any]) -> Case:
    escape = draw(st.sampled_from([None, None, "\\", "!"]))
    options = _times(draw, ("timestampFormat", "dateFormat"))
    if draw(st.integers(0, 3)) == 0:
        options["nullValue"] = draw(st.sampled_from(["-", "null", "\\N"]))
    if draw(st.integers(0, 5)) == 0:
        options["quote"] = draw(st.sampled_from([""] if escape else ["", "'"]))
    separator = draw(st.sampled_from([",", "|", "\t", "\x01", "é"]))
    schema = draw(schemas(PLAIN))
    spec = RecordSpec(
        kind="csv",
        schema=schema,
        separator=separator,
        escape=escape,
        options=options,
        time_zone=draw(st.sampled_from(ZONES)),
    )
    quote = "" if escape else options.get("quote", '"')
    records = []
    for _ in range(draw(st.integers(1, 5))):
        fields = [draw(mostly(plain_text(one.type))) if draw(st.integers(0, 5)) else "" for one in schema]
        if quote and draw(st.integers(0, 3)) == 0:
            fields = [quote + field.replace(quote, quote * 2) + quote for field in fields]
        records.append(separator.join(fields))
    return Case(spec, draw(_written(records)))


@st.composite
def kv_cases(draw: Callable[..., Any]) -> Case:
    separator = draw(st.sampled_from(["&", ",", "\x01", "é"]))
    kv_separator = draw(st.sampled_from(["=", ":"]))
    schema = draw(schemas(PLAIN))
    spec = RecordSpec(
        kind="kv",
        schema=schema,
        separator=separator,
        escape=draw(st.sampled_from([None, "\\"])),
        options={**_times(draw, ("timestampFormat", "dateFormat")), "kvSeparator": kv_separator},
        time_zone=draw(st.sampled_from(ZONES)),
        rescue=draw(RESCUES),
    )
    records = []
    for _ in range(draw(st.integers(1, 5))):
        names = [*draw(st.permutations(schema.names)), *draw(st.lists(st.sampled_from(NAMES), max_size=1))]
        kinds = {one.name: one.type for one in schema}
        pairs = [
            (name, draw(mostly(plain_text(kinds.get(name, pa.string()))))) for name in names if draw(st.integers(0, 5))
        ]
        records.append(separator.join(f"{name}{kv_separator}{value}" for name, value in pairs))
    return Case(spec, draw(_written(records)))


@st.composite
def _written(draw: Callable[..., Any], records: list[str]) -> list[bytes | None]:
    whole = [draw(mutated(record.encode("utf-8", "surrogatepass"))) for record in records]
    if draw(st.integers(0, 3)) == 1:
        whole = [record + b"\r\n" for record in whole]
    if draw(st.integers(0, 15)) == 7:
        whole = [b"\xef\xbb\xbf" + record for record in whole]
    more = draw(st.lists(st.none() | st.binary(max_size=20), max_size=1))
    return [*whole, *more]


CASES = json_cases() | csv_cases() | kv_cases()
