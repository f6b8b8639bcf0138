"""Reasons name columns, types and places. They show no value, and no name that a record brings."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient.inlong.packs import OwnRecord, encode_message_objs
from tests.tubeclient.records import avro_records, protos
from tests.tubeclient.records.generated import mutated
from tests.tubeclient.records.reading import MOMENT, VARIANT, spec
from tubeclient.errors import CorruptMessage
from tubeclient.inlong import RecordDecoder, RecordGroup, encode_pack, records_of
from tubeclient.records.decoder import Decoder
from tubeclient.records.spec import RecordSpec
from tubeclient.wire.payload import decode_payload

TEXT, DIGITS = "Zq7xSecret", "918273645546372819"
"""Stand for what a sender writes."""
COLUMNS: dict[str, Any] = {
    "i": pa.int64(),
    "d": pa.decimal128(5, 2),
    "t": MOMENT,
    "y": pa.binary(),
    "m": pa.map_(pa.string(), pa.int8()),
    "k": pa.map_(pa.int64(), pa.date32()),
    "s": pa.struct([("a", pa.int8()), ("b", pa.list_(pa.bool_()))]),
    "v": VARIANT,
}
PLAIN = {name: COLUMNS[name] for name in "idt"}
OF_MESSAGES = ("groupId", "streamId", "dt", "t", TEXT, DIGITS)
OF_DATAPROXY = ("version", "msgEnType", "inlongGroupId", "inlongStreamId", "msgTime", "compressType", TEXT)

Text = st.SearchStrategy[str]


def list_of(parts: list[str]) -> str:
    return f"[{','.join(parts)}]"


def object_of(pairs: list[tuple[str, str]]) -> str:
    return "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"


TWICE = object_of([(TEXT, "1")] * 2)
LEAF: Text = st.sampled_from(
    [f'"{TEXT}"', DIGITS, f'"{DIGITS}"', f"-{DIGITS}.5", "1", "null", "true", '"AfQ="', TEXT, TWICE]
)
NAME: Text = st.sampled_from([*COLUMNS, "a", "b", "scale", "value", TEXT, TEXT, DIGITS])


def objects(value: Text, *names: str) -> Text:
    """Objects, some with a name twice."""
    one = st.tuples(st.sampled_from([*names, TEXT]) if names else NAME, value)
    return st.lists(one, max_size=5).map(object_of)


VALUE: Text = st.recursive(LEAF, lambda part: st.lists(part, max_size=3).map(list_of) | objects(part), max_leaves=8)
ROW: Text = objects(VALUE)


def whole(**parts: Text) -> Text:
    """Objects with these fields, one of them perhaps with any value."""
    pairs = [st.tuples(st.just(name), st.one_of(*[of] * 5, VALUE)) for name, of in parts.items()]
    return st.tuples(*pairs).map(list).map(object_of)


_LOGICAL = (
    ("d", "io.debezium.data.VariableScaleDecimal"),
    ("t", "org.apache.kafka.connect.data.Decimal"),
    ("v", "io.debezium.data.Json"),
)
_TYPES = list_of([object_of([("field", f'"{one}"'), ("name", f'"{name}"')]) for one, name in _LOGICAL])
_IMAGES = list_of([object_of([("field", f'"{one}"'), ("fields", _TYPES)]) for one in ("before", "after")])
EVENT = whole(
    op=st.sampled_from(['"c"', '"u"', '"d"', f'"{TEXT}"']),
    before=ROW,
    after=ROW,
    source=objects(LEAF, "connector", "pos", "gtid", "lsn", "scn", "commit_lsn", "ts_ms"),
    ts_ms=LEAF,
)
BY_KIND: dict[str, tuple[RecordSpec, Text]] = {
    "json": (spec("json", COLUMNS, ("i",)), ROW),
    "rescued json": (spec("json", COLUMNS, ("i",), rescue="values"), ROW),
    "csv": (
        spec("csv", PLAIN, ("i",)),
        st.lists(st.sampled_from([TEXT, DIGITS, f'"{TEXT}', f'"{TEXT}"x', f'"{TEXT}\n', "1", ""])).map(",".join),
    ),
    "kv": (
        spec("kv", PLAIN, ("i",), separator="&", escape="\\"),
        st.lists(
            st.sampled_from(
                [
                    f"{name}{mark}{value}"
                    for name in ("i", "d", "t", TEXT)
                    for mark in ("=", "")
                    for value in (TEXT, DIGITS, f"{TEXT}\\", "1")
                ]
            )
        ).map("&".join),
    ),
    "debezium-json": (
        spec("debezium-json", COLUMNS, keys=("i",)),
        EVENT | whole(schema=st.just(object_of([("fields", _IMAGES)])), payload=EVENT),
    ),
    "canal-json": (
        spec("canal-json", PLAIN, keys=("i",)),
        whole(
            type=st.sampled_from(['"INSERT"', '"UPDATE"', f'"{TEXT}"']),
            data=st.lists(ROW, min_size=1, max_size=2).map(list_of),
            old=st.lists(ROW, max_size=2).map(list_of),
            es=LEAF,
            gtid=LEAF,
        ),
    ),
}


def check(*reasons: str) -> None:
    assert [one for one in reasons if TEXT in one or DIGITS in one] == []


def reasons(one: RecordSpec, *records: bytes) -> list[str]:
    """Of the bad ones."""
    found: list[str] = Decoder(one).decode(pa.array(records, pa.binary())).reasons.drop_null().to_pylist()
    return found


@pytest.mark.parametrize("kind", BY_KIND)
@given(data=st.data())
def test_of_texts(kind: str, data: st.DataObject) -> None:
    one, records = BY_KIND[kind]
    texts = [data.draw(mutated(text.encode())) for text in data.draw(st.lists(records, min_size=1, max_size=5))]
    check(*reasons(one, *texts))


@given(st.integers(0, 60), st.sampled_from([TEXT.encode(), DIGITS.encode(), b"\xff" + TEXT.encode()]))
def test_of_bytes(place: int, put: bytes) -> None:
    avro = avro_records.user(1, TEXT)
    for one, record in (
        (avro_records.of(avro_records.USER), avro),
        (protos.of("shop.Click", {"name": pa.string(), "point": protos.POINT}), protos.shop(name=TEXT, user=TEXT)),
        (protos.of("shop.Order", {"id": pa.int64()}), protos.shop("shop.Order", name=TEXT, words=[TEXT])),
    ):
        check(*reasons(one, record[:place] + put + record[place:]))


def pairs(*names: str) -> st.SearchStrategy[dict[str, str]]:
    return st.dictionaries(st.sampled_from(names), st.sampled_from([TEXT, DIGITS, f"20{TEXT}", "0", "1", "2"]))


@given(pairs(*OF_MESSAGES), pairs(*OF_DATAPROXY), st.sampled_from(["inlong", "auto"]), st.data())
def test_of_packs(own: dict[str, str], outer: dict[str, str], payload: Any, data: st.DataObject) -> None:
    """And of what is no pack, of one that is damaged, and of a message whose attributes are no text."""
    pack = encode_pack([RecordGroup(own, [TEXT.encode()])], made_ms=5, snappy=False)
    time = data.draw(st.sampled_from([5, int(DIGITS)]))
    objects = encode_message_objs([OwnRecord(TEXT.encode(), own)], [time], "none")
    broken = pack.replace(b"=", b"\xff" if data.draw(st.booleans()) else b"", 1)
    for body in (pack, objects, broken, data.draw(mutated(pack)), data.draw(mutated(objects)), TEXT.encode()):
        try:
            records_of(body, outer, RecordDecoder(payload))
        except CorruptMessage as error:
            check(str(error))
    with pytest.raises(CorruptMessage) as caught:
        decode_payload(b"\0\0\0\x0b\xff" + TEXT.encode(), 1)
    check(str(caught.value))
    assert "0x" not in str(caught.value)


def test_of_a_decimal_with_a_name_twice() -> None:
    of_event, _ = BY_KIND["debezium-json"]
    row = object_of([("i", "1"), ("d", TWICE)])
    whole = object_of([("schema", object_of([("fields", _IMAGES)])), ("payload", f'{{"op":"c","after":{row}}}')])
    assert reasons(of_event, whole.encode()) == [
        f"the value of d is not of type decimal(5,2), at byte {whole.index(TWICE)}"
    ]
