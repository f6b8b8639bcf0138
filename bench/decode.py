"""Decoding on one core: from the bytes of a frame, as a broker sends them, to the batch that Spark is given.

Each stage is also timed alone, with the same packs. All times are CPU times of this process, so that other load on the
core matters little.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from bench.results import Results, RunSettings
from spark_source.options.row_options import ATTRIBUTES, RowOptions
from spark_source.plan.offset_rule import OffsetRule
from spark_source.read.arrow import PackDecoder
from spark_source.read.batch_sizes import gathered, regroup
from tubeclient.flows.read_range import Pack
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.wire.envelope import data_start, decode_response, encode_response, parse_message
from tubeclient.wire.framing import Frame, FrameDecoder, encode_frame
from tubeclient.wire.messages import checked_columns
from tubeclient.wire.methods import Method
from tubeclient.wire.payload import checksum, encode_attributes, encode_payload
from tubeclient.wire.proto import broker_pb2

if TYPE_CHECKING:
    import pyarrow as pa

    from bench.stage import Stage

__all__ = ["STAGES", "Packs", "decode", "make_frames", "measure_decode", "stage_seconds"]

_BODY_BYTES: Final = 100
_PACK_MESSAGES: Final = 2_000
"""About what a broker sends at once: 300 kB."""
_PACKS_OF_A_BATCH: Final = 5
_RECEIVED_BYTES: Final = 1 << 17
_KEY: Final = PartitionKey(1, "bench", 0)
_SPEC: Final = Method.GET_MESSAGES.spec

STAGES: Final = ("frames", "protobuf", "columns, checksums", "Arrow")


class Packs(NamedTuple):
    """Answers of a broker."""

    frames: list[bytes]
    messages: int
    """Of each."""


def make_frames(packs: int, messages: int, body_bytes: int, *, with_attributes: bool) -> Packs:
    """So many answers with so many messages. All bodies differ. With `with_attributes` a message also has a tag, a time
    and an attribute whose value no other message has.
    """
    return Packs([_frame(number, messages, body_bytes, with_attributes) for number in range(packs)], messages)


def _frame(number: int, messages: int, body_bytes: int, with_attributes: bool) -> bytes:
    response = broker_pb2.GetMessageResponseB2C(success=True, errCode=200, errMsg="OK", currOffset=0)
    for message_id in range(number * messages, (number + 1) * messages):
        body = b"%0*d" % (body_bytes, message_id)
        text = encode_attributes({"id": f"{message_id:08}"}, "web", "202611221200") if with_attributes else ""
        payload, flag = encode_payload(body, text)
        response.messages.add(
            messageId=7_000_000_000 + message_id, checkSum=checksum(payload), payLoadData=payload, flag=flag
        )
    return encode_frame(number + 1, encode_response(_SPEC.method_id, response.SerializeToString()))


def decode(packs: Packs, *, include_attributes: bool) -> Iterator[pa.RecordBatch]:
    """What a task does with the answers, without the network."""
    decoder = PackDecoder(rows=RowOptions(columns=ATTRIBUTES if include_attributes else ()), time_zone="UTC")
    found = _packs(columns for frame in _frames(packs) for columns in [checked_columns(_parsed(frame).messages)])
    ended: list[tuple[int, Pack | None]] = [(0, None)]
    return regroup(
        decoder.decode(some, OffsetRule.UNKNOWN) for _, some in gathered(chain(((0, pack) for pack in found), ended))
    )


def _frames(packs: Packs) -> Iterator[Frame]:
    decoder = FrameDecoder(data_start)
    for frame in packs.frames:
        for at in range(0, len(frame), _RECEIVED_BYTES):
            yield from decoder.feed(memoryview(frame)[at : at + _RECEIVED_BYTES])


def _parsed(frame: Frame) -> broker_pb2.GetMessageColumnsB2C:
    return parse_message(broker_pb2.GetMessageColumnsB2C, decode_response(frame.stream, _SPEC.method_id, frame.rest))


def _packs(columns: Iterator[Any]) -> Iterator[Pack]:
    start = 0
    for one in columns:
        end = start + len(one.ids) * INDEX_ENTRY_BYTES
        yield Pack(_KEY, start, end, one)
        start = end


def stage_seconds(packs: Packs, *, include_attributes: bool) -> dict[str, float]:
    """CPU seconds of each of STAGES. Goes batch by batch, so that a stage finds its input in the processor's caches."""
    decoder = PackDecoder(rows=RowOptions(columns=ATTRIBUTES if include_attributes else ()), time_zone="UTC")
    seconds = dict.fromkeys(STAGES, 0.0)

    for at in range(0, len(packs.frames), _PACKS_OF_A_BATCH):
        clock = [time.process_time()]
        frames = list(_frames(Packs(packs.frames[at : at + _PACKS_OF_A_BATCH], packs.messages)))
        clock.append(time.process_time())
        parsed = list(map(_parsed, frames))
        clock.append(time.process_time())
        columns = [checked_columns(one.messages) for one in parsed]
        clock.append(time.process_time())
        decoder.decode(list(_packs(iter(columns))), OffsetRule.UNKNOWN)
        clock.append(time.process_time())
        for stage, (began, ended) in zip(STAGES, pairwise(clock), strict=True):
            seconds[stage] += ended - began
    return seconds


def measure_decode(stage: Stage, results: Results, run: RunSettings) -> None:
    """Messages a second of one core, without attributes and with."""
    count = max(10, round(250 * run.scale))
    for key, title, attributes in (
        ("plain", "decoding, 100 bytes, no attributes", False),
        ("attributes", "decoding, 100 bytes, with tag, time and an attribute, all asked for", True),
    ):
        packs = make_frames(count, _PACK_MESSAGES, _BODY_BYTES, with_attributes=attributes)
        rates = [_rate(packs, attributes) for _ in range(run.warm_ups + run.rounds)][run.warm_ups :]
        results.add(f"decode/{key}", title, "messages/s of one core", rates)
        stage.say(f"{title}: {', '.join(f'{rate:,.0f}' for rate in rates)} messages/s")


def _rate(packs: Packs, include_attributes: bool) -> float:
    started = time.process_time()
    rows = sum(batch.num_rows for batch in decode(packs, include_attributes=include_attributes))
    seconds = time.process_time() - started
    if rows != len(packs.frames) * packs.messages:
        raise RuntimeError(f"decoded {rows} of {len(packs.frames) * packs.messages} messages")
    return float(rows / seconds)
