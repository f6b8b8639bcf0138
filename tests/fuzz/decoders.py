"""The client's decoders, and the parsers of texts that users and checkpoints give."""

from __future__ import annotations

import json
from datetime import UTC
from typing import get_args

from embedded_tubemq.common.catalogue import TopicConfig
from spark_source.offsets.offset_spec import OffsetSpec
from spark_source.offsets.offsets import Offsets
from spark_source.offsets.timestamps import parse_timestamps
from spark_source.options.given import parse_given, read_options, write_options
from spark_source.options.table import OPTIONS
from tests.fuzz import seeds
from tests.fuzz.target import Find, Input, Target, allowed
from tests.tubeclient.web_answers import PARSERS
from tubeclient.admin.answers.fields import Fields
from tubeclient.errors import ConfigurationError, CorruptMessage, ProtocolError, RemoteError, TubeError
from tubeclient.flows.read_range import Pack
from tubeclient.identity import maker_of, new_client_id
from tubeclient.inlong import Limits, Payload, RecordDecoder
from tubeclient.keys import PartitionKey
from tubeclient.net.http import parse_answer
from tubeclient.wire import strings
from tubeclient.wire.envelope import decode_request, decode_response, parse_message
from tubeclient.wire.framing import MAX_STREAM_BYTES, FrameDecoder
from tubeclient.wire.message_time import message_time_ms
from tubeclient.wire.messages import bad_attributes, bodies_of, checked_columns, kept_columns, with_tags
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import decode_payload, parse_attributes
from tubeclient.wire.proto import broker_pb2
from tubeclient_cli.common.places import parse_place
from tubeclient_cli.offsets.reset import parse_target
from tubeclient_ingest.record import SinkRecord

__all__ = ["DECODERS"]

_KEY = PartitionKey(1, "clicks", 0)
_OWN_ID = "-".join(new_client_id("g", "one").split("-")[:2]) + "-"
"""How the client ids of this process begin."""
_METHODS = list(Method)
_LIMITS = Limits(max_bytes=1 << 20, max_records=10_000, max_repeated_bytes=1 << 20)
_NAMES = [option.name for option in OPTIONS]


def frames(data: bytes) -> None:
    """The bytes of a connection, in pieces."""
    given = Input(data)
    step = max(1 + given.number(), len(data) // 200)
    decoder = FrameDecoder()

    def feed() -> None:
        while piece := given.piece(step):
            for frame in decoder.feed(piece):
                if len(frame.stream) > MAX_STREAM_BYTES:
                    raise Find(f"a frame of {len(frame.stream)} bytes")

    allowed(feed, ProtocolError)
    if decoder.buffered_bytes > len(data):
        raise Find(f"{decoder.buffered_bytes} bytes held of {len(data)}")


def answers(data: bytes) -> None:
    """The stream of an answer to one of all methods."""
    given = Input(data)
    spec = _METHODS[given.number() % len(_METHODS)].spec
    stream = given.rest()
    allowed(lambda: parse_message(spec.response, decode_response(stream, spec.method_id)), TubeError)
    allowed(lambda: parse_message(spec.response, stream), ProtocolError)
    allowed(lambda: parse_message(spec.request, decode_request(stream).body), ProtocolError)


def packs(data: bytes) -> None:
    """The answer to a fetch, down to bodies and attributes."""

    def read() -> None:
        wire = parse_message(broker_pb2.GetMessageColumnsB2C, data).messages
        allowed(lambda: checked_columns(wire, 1), CorruptMessage)
        columns, bad = kept_columns(wire)
        pack = Pack(_KEY, 0, 28 * len(columns.ids), columns, bad)
        if len(pack.bodies) != len(pack) or len(pack.messages) != len(pack):
            raise Find("a pack that lost a message")
        for message in pack:
            _ = message.body, message.attributes, message.tag, message_time_ms(message.time, UTC)
        with_tags(columns, frozenset({"red"}), bad | bad_attributes(columns))
        allowed(lambda: bodies_of(columns), CorruptMessage)

    allowed(read, ProtocolError)


def payloads(data: bytes) -> None:
    """A payload with attributes."""
    allowed(lambda: parse_attributes(decode_payload(data, 1)[1]), CorruptMessage)


def texts(data: bytes) -> None:
    """The string fields of answers."""
    text = data.decode(errors="replace")
    allowed(lambda: strings.parse_broker(text), ProtocolError)
    allowed(lambda: strings.parse_subscription(text), ProtocolError)
    allowed(lambda: TopicConfig.parse(text), ConfigurationError)
    maker_of(text.replace("%", _OWN_ID), "g")
    lists = text.split("\n")
    for parse in (strings.parse_filters, strings.parse_report):
        allowed(lambda parse=parse: parse(lists), ProtocolError)  # type: ignore[misc]

    def layouts() -> None:
        for layout in [*strings.parse_consumer_layouts(lists), *strings.parse_producer_layouts(lists)[0]]:
            if layout.stores * layout.partitions_per_store > 1_000_000:
                raise Find(f"{layout} would be expanded into a list")

    allowed(layouts, ProtocolError)


def inlong(data: bytes) -> None:
    """A message that InLong packed: its attributes as JSON, a line break, and its body."""
    head, _, body = data.partition(b"\n")
    try:
        attributes = json.loads(head)
    except (ValueError, RecursionError):
        return
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        return
    try:
        json.dumps(attributes, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return  # a payload's attributes are decoded from UTF-8
    for payload in get_args(Payload):
        size = 0
        for columns in RecordDecoder(payload, limits=_LIMITS).decode([body], [attributes], [10]):
            columns.attribute_maps()
            records = columns.records()
            size += columns.bodies.nbytes + columns.group_ids.nbytes
            if len(records) > _LIMITS.max_records or not (records or columns.bad or not columns.segments):
                raise Find(f"{len(records)} records of one message")
            if any(not bad.reason for bad in columns.bad):
                raise Find("a bad message without a reason")
        if size > 4 * (_LIMITS.max_bytes + _LIMITS.max_repeated_bytes):
            raise Find(f"{size} bytes of columns from {len(data)} bytes")


def web_answers(data: bytes) -> None:
    """The answer of a web port to each call of the administration."""
    given = Input(data)
    parse = list(PARSERS.values())[given.number() % len(PARSERS)]
    body = given.rest()
    allowed(lambda: parse(Fields(parse_answer(body, "admin_query", "h:1"), "the answer")), ProtocolError, RemoteError)


def offsets(data: bytes) -> None:
    """Offsets as JSON: of options, of checkpoints, and of a commit to the job's target."""
    text = data.decode(errors="replace")

    def whole() -> None:
        found = Offsets.parse(text)
        if Offsets.parse(found.to_json()) != found:
            raise Find("offsets that do not come back")

    allowed(whole, ConfigurationError)
    allowed(lambda: OffsetSpec.parse(text, "startingOffsets"), ConfigurationError)
    allowed(lambda: parse_timestamps(text, "startingOffsetsByTimestamp"), ConfigurationError)
    allowed(lambda: SinkRecord.parse(text), ConfigurationError)
    allowed(lambda: parse_place(text, "--from", UTC), ConfigurationError)
    allowed(lambda: parse_target(text), ConfigurationError)


def options(data: bytes) -> None:
    """Options of a read or a write: a number that names the option, and its text, line by line."""
    given = {"masterServers": "h:1", "subscribe": "clicks", "consumerGroup": "g"}
    for line in data.split(b"\n"):
        name = _NAMES[(line or b"\0")[0] % len(_NAMES)].replace("*", "x")
        given[name] = line[1:].decode(errors="replace")
    allowed(lambda: read_options(parse_given(given)), ConfigurationError)
    allowed(lambda: write_options(parse_given(given)), ConfigurationError)


DECODERS = [
    Target.of(frames, seeds.frames),
    Target.of(answers, seeds.answers),
    Target.of(packs, seeds.packs),
    Target.of(payloads, seeds.payloads),
    Target.of(texts, seeds.texts),
    Target.of(inlong, seeds.inlong),
    Target.of(web_answers, seeds.web_answers),
    Target.of(offsets, seeds.offsets),
    Target.of(options, seeds.options),
]
