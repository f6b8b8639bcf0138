"""The compiled core beside the plain code, which is the reference: equal rows and equal errors for any bytes."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from embedded_tubemq.storage.layout import encode
from spark_source.options.source_options import ATTRIBUTES, RowOptions
from spark_source.plan.read_task import OffsetRule
from spark_source.read.arrow import PackDecoder
from tests.wire.fuzz import FUZZ, damaged
from tubeclient import ClientSettings
from tubeclient._version import __version__
from tubeclient.consumers.group import fetch_view
from tubeclient.core import CORE
from tubeclient.errors import CorruptMessage, ProtocolError
from tubeclient.keys import OffsetRange, PartitionKey
from tubeclient.range_reader import Pack, RangeReader
from tubeclient.wire.envelope import Part
from tubeclient.wire.messages import Columns, Fetched, checked_columns, parse_fetched, unchecked_columns
from tubeclient.wire.payload import checksum
from tubeclient.wire.proto.broker_pb2 import GetMessageResponseB2C, TransferedMessage

if CORE is None:
    pytest.skip("tubeclient_core is not built here; the plain code has its own tests", allow_module_level=True)

KEY = PartitionKey(7, "clicks", 10_003)
KEYS = st.sampled_from(["$msgType$", "$msgTime$", "k", "l", "ü", ""])
VALUES = st.sampled_from(["", "a", "x=y", "202401020304", "202413020304", "٢٠٢٤٠١٠٢٠٣٠٤", "ü", "\0"])


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Some have attributes in order, some do not."""
    body = draw(st.binary(max_size=6))
    pairs = draw(st.lists(st.tuples(KEYS, st.sampled_from(["", "="]), VALUES), max_size=5))
    text = draw(st.just(",".join(map("".join, pairs)).encode()) | st.binary(max_size=8))
    length = draw(st.just(len(text)) | st.integers(-2, 9))
    return draw(st.sampled_from([struct.pack(">i", length) + text + body, body]))


@st.composite
def messages(draw: st.DrawFn) -> TransferedMessage:
    payload = draw(payloads())
    right = draw(st.integers(0, 9)) > 0
    return TransferedMessage(
        messageId=draw(st.integers(-(1 << 63), (1 << 63) - 1)),
        checkSum=checksum(payload) if right else draw(st.integers(-(1 << 31), (1 << 31) - 1)),
        payLoadData=payload,
        flag=draw(st.sampled_from([0, 1, 1, 1, 2, 3, -1])),
    )


PADDED = st.builds(encode, payloads(), st.integers(0, 3), st.just(7))
"""As the embedded broker writes them, with numbers of a fixed width."""


@st.composite
def answers(draw: st.DrawFn) -> bytes:
    answer = GetMessageResponseB2C(success=True, errCode=200, messages=draw(st.lists(messages(), max_size=6)))
    for name in ("currOffset", "currDataDlt", "maxOffset"):
        if draw(st.booleans()):
            setattr(answer, name, draw(st.integers(-1, 1 << 40)))
    if draw(st.booleans()):
        answer.errMsg = draw(st.text(max_size=5))
    return answer.SerializeToString() + b"".join(draw(st.lists(PADDED, max_size=3)))


# Field 4 as a number, a group, a message with one field twice, a varint that is longer than it need be, one that is too
# large, a payload that is longer than its message, number 0, one of 33 bits.
ODD = [
    "0801 10c801 2001",
    "0801 10c801 2324",
    "0801 10c801 220a 0801 0802 1000 1a00 2000",
    "0801 10c801 a20000",
    "0801 10c801 2211 08ffffffffffffffffff7f 1000 1a00 2000",
    "0801 10c801 2208 0801 1000 2000 1a05 2822 3001 3801",
    "0001",
    "0801 10c801 220e 0801 1000 1a00 2000 c08080801005",
]
ANY_BYTES = answers() | damaged(answers()) | st.binary(max_size=60) | st.sampled_from(list(map(bytes.fromhex, ODD)))


def told(call: Callable[[], Any]) -> Any:
    """What a call gives, or its error: kind, words and place."""
    try:
        return call()
    except (CorruptMessage, ProtocolError) as error:
        return type(error), str(error), getattr(error, "number", None)


def plain(call: Callable[[], Any]) -> Any:
    """What a call gives without the core."""
    with patch("tubeclient.wire.messages.CORE", None), patch("spark_source.read.arrow.CORE", None):
        return call()


def fetched(data: bytes, before: bytes = b"", behind: bytes = b"") -> Fetched:
    return parse_fetched(Part(before + data + behind, len(before), len(before) + len(data)))


def all_of(answer: Fetched, first: int | None) -> Any:
    """All that can be known of an answer."""

    def kept() -> Any:
        columns, bad = unchecked_columns(answer.messages, first)
        return Columns(*columns), columns.payload_bytes, bad

    ids = list(answer.messages.ids)
    checked = told(lambda: Columns(*checked_columns(answer.messages, first)))
    return answer._replace(messages=None), ids, checked, told(kept)  # type: ignore[arg-type]


@pytest.mark.parametrize("odd", ODD)
def test_odd_answers(odd: str) -> None:
    data = bytes.fromhex(odd)
    assert told(lambda: all_of(fetched(data), None)) == told(lambda: plain(lambda: all_of(fetched(data), None)))


@given(ANY_BYTES, st.none() | st.integers(0, 7), st.binary(max_size=3), st.binary(max_size=3))
@FUZZ
def test_any_bytes_as_messages(data: bytes, first: int | None, before: bytes, behind: bytes) -> None:
    """Core and plain code read the same messages, or raise the same error, for any bytes."""
    with_core = told(lambda: all_of(fetched(data, before, behind), first))
    assert with_core == told(lambda: plain(lambda: all_of(fetched(data), first)))


def table(data: list[bytes], keep: bool, with_attributes: bool) -> pa.Table:
    """The rows of answers as Spark gets them."""
    columns = ATTRIBUTES if with_attributes else ()
    rows = RowOptions(
        columns=(*columns, "badReason") if keep and columns else columns, bad_messages="keep" if keep else "fail"
    )
    packs, start = [], 0
    for one in data:
        arrived = fetched(one).messages
        found, bad = unchecked_columns(arrived) if keep else (checked_columns(arrived), None)
        packs.append(Pack(KEY, start, start + 28 * len(found.ids), found, bad))
        start = packs[-1].end
    decoder = PackDecoder(rows=rows, time_zone="Asia/Kolkata")
    batch = decoder.decode(packs, OffsetRule.ALWAYS)
    batch.validate(full=True)
    return pa.Table.from_batches([batch])


MANY = ",".join(f"k{number}=v" for number in range(100)).encode()


def one(payload: bytes) -> bytes:
    message = TransferedMessage(messageId=1, checkSum=checksum(payload), payLoadData=payload, flag=1)
    return GetMessageResponseB2C(success=True, errCode=200, messages=[message]).SerializeToString()


def texted(text: str, body: bytes = b"body") -> bytes:
    return struct.pack(">i", len(text.encode())) + text.encode() + body


@given(st.lists(answers(), min_size=1, max_size=4), st.booleans(), st.booleans())
@example([one(texted("$msgTime$=202401020304,$msgTime$="))], False, True)
@example([one(texted("$msgType$=a,$msgType$=,$msgType$=b"))], False, True)
@example([one(texted("$msgType$=,k=,k=v,k=w,l=v,l="))], False, True)
@example([one(struct.pack(">i", len(MANY)) + MANY + b"body")], False, True)
@FUZZ
def test_any_messages_as_a_table(data: list[bytes], keep: bool, with_attributes: bool) -> None:
    """Core and plain code make the same table, or raise the same error, for any messages."""
    with_core = told(lambda: table(data, keep, with_attributes))
    without = told(lambda: plain(lambda: table(data, keep, with_attributes)))
    assert type(with_core) is type(without)
    assert with_core.equals(without) if isinstance(with_core, pa.Table) else with_core == without


def test_usual_messages_use_the_core() -> None:
    """The core decodes messages as brokers and clients write them."""
    assert CORE is not None
    text = b"$msgType$=a,$msgTime$=202401020304,k=v"
    data = one(struct.pack(">i", len(text)) + text + b"body")
    messages = fetched(data).messages
    assert isinstance(messages, CORE.Messages)
    columns = CORE.Texts(lambda _: 5).columns([messages], True)
    assert pa.record_batch(columns).to_pylist() == [
        {"id": 1, "tag": "a", "time_us": 5, "value": b"body", "attributes": [("k", "v")]}
    ]


def test_embedded_broker_uses_the_core(tmp_path: Path) -> None:
    """The core decodes what the embedded broker writes, and its packs survive pickling."""
    assert CORE is not None
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        tube.load("clicks", [NewMessage(0, b"one"), NewMessage(0, b"two")])
        settings = ClientSettings((tube.master_address,))
        [broker] = fetch_view(settings, ["clicks"], ("readers",)).brokers.values()
        with RangeReader(settings, ("readers",)) as reader:
            [pack] = reader.read(broker, OffsetRange(PartitionKey(broker.broker_id, "clicks", 0), 0, 56))
    assert isinstance(pack.columns, CORE.Messages)
    assert pack.bodies == [b"one", b"two"]
    copy = pickle.loads(pickle.dumps(pack))
    assert isinstance(copy.columns, Columns)
    assert (pack == copy, copy == pack, copy.columns._replace(flags=[0, 1]) == pack.columns) == (True, True, False)


def test_error_of_the_time_function() -> None:
    """The core passes an error of the time function through and works afterward."""
    assert CORE is not None

    def fails(_: str) -> int:
        raise KeyboardInterrupt

    text = b"$msgTime$=202401020304"
    messages = fetched(one(struct.pack(">i", len(text)) + text)).messages
    texts = CORE.Texts(fails)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            texts.columns([messages], False)


def test_the_core_is_of_this_version() -> None:
    assert CORE is not None
    assert CORE.__version__ == __version__
