"""InLong packs, two ways: decoding them on one core beside Apache's InLongMsg on one thread, and reading them in Spark
beside raw messages of the same size.

All packs have 200 records of 80 to 120 bytes, 100 on average, and are compressed with snappy. Decoding is measured in
CPU time. In Java only the thread that decodes counts, not those of the compiler and the garbage collector.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from bench.java_inlong import JavaPacks
from bench.results import Results, RunSettings
from bench.rounds import add_turns
from bench.spark_reads import timed_read, tube_options
from bench.workloads import LAYOUTS, Workload, scaled, topic_of
from spark_source.options.row_options import RowOptions
from spark_source.plan.offset_rule import OffsetRule
from spark_source.read.arrow import PackDecoder
from tubeclient import OutgoingMessage, Producer
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey
from tubeclient.range_reader import Pack
from tubeclient.wire.messages import Columns

if TYPE_CHECKING:
    from concurrent.futures import Future

    import pyarrow as pa

    from bench.stage import Stage

__all__ = ["RECORD_BYTES", "decode", "fetched", "make_packs", "measure_inlong"]

RECORD_BYTES: Final = 100
"""On average."""
_RECORD_SPREAD_BYTES: Final = 20
"""How much shorter or longer a record may be."""
_PACK_RECORDS: Final = 200
_DECODED_RECORDS: Final = 400_000
_FETCHED_PACKS: Final = 50
"""About what a broker sends at once."""
_MADE_MS: Final = 1_764_806_400_000
_ATTRIBUTES: Final = {"groupId": "web", "streamId": "clicks", "dt": str(_MADE_MS)}
_MESSAGE_ATTRIBUTES: Final = {"msgEnType": "2", "version": "2"}
_KEY: Final = PartitionKey(1, "bench", 0)
_RAW: Final = Workload("packed", "2 M x 100 bytes", 2_000_000, RECORD_BYTES, False)
_LAYOUT: Final = LAYOUTS[1]
_SEND_SECONDS: Final = 60.0


def make_packs(records: int) -> Iterator[bytes]:
    """Yield packs of so many records in all, each record a line of its own, as a web server logs it."""
    for first in range(0, records, _PACK_RECORDS):
        lines = [_line(number) for number in range(first, min(first + _PACK_RECORDS, records))]
        yield encode_pack([RecordGroup(_ATTRIBUTES, lines)], made_ms=_MADE_MS)


def _line(number: int) -> bytes:
    mixed = number * 2_654_435_761 % (1 << 32)
    address = f"10.{mixed >> 24}.{mixed >> 16 & 255}.7"
    line = f"{number:012}|{address}|GET|/shop/item/{mixed % 99_991}|{mixed:08x}|200|Mozilla/5.0|"
    size = RECORD_BYTES - _RECORD_SPREAD_BYTES + mixed % (2 * _RECORD_SPREAD_BYTES + 1)
    return line.ljust(size, "-").encode()


def fetched(packs: Iterable[bytes]) -> list[Pack]:
    """The packs as a broker sends them, many at once."""
    messages = [OutgoingMessage.of("bench", pack, attributes=_MESSAGE_ATTRIBUTES) for pack in packs]
    found = []
    for first in range(0, len(messages), _FETCHED_PACKS):
        some = messages[first : first + _FETCHED_PACKS]
        columns = Columns(list(range(len(some))), [one.payload for one in some], [one.flag for one in some])
        end = first + len(some)
        found.append(Pack(_KEY, first * INDEX_ENTRY_BYTES, end * INDEX_ENTRY_BYTES, columns))
    return found


def decode(packs: Iterable[Pack]) -> Iterator[pa.RecordBatch]:
    """What a task does with what a broker sent, without the network and the frames."""
    decoder = PackDecoder(rows=RowOptions(payload="inlong"), time_zone="UTC")
    for pack in packs:
        yield from decoder.batches([pack], OffsetRule.UNKNOWN)


def measure_inlong(stage: Stage, results: Results, run: RunSettings) -> None:
    """Records a second: decoded by us and by Java, and read by Spark from packs and from raw messages."""
    _measure_decode(stage, results, run)
    _measure_reads(stage, results, run)


def _measure_decode(stage: Stage, results: Results, run: RunSettings) -> None:
    records = max(20_000, round(_DECODED_RECORDS * run.scale))
    packs = list(make_packs(records))
    with JavaPacks(stage.folder / "java_inlong", packs) as java:
        add_turns(
            results,
            run,
            {
                "inlong/decode": partial(_our_rate, fetched(packs), records),
                "inlong/java": lambda: records / java.decode_seconds(records),
            },
            {
                "inlong/decode": "InLong packs of 200 x 80 to 120 bytes, snappy: decoding to Arrow",
                "inlong/java": "InLong packs of 200 x 80 to 120 bytes, snappy: Apache's InLongMsg in Java, one thread",
            },
            "records/s of one core",
            stage.say,
        )


def _our_rate(packs: list[Pack], records: int) -> float:
    started = time.process_time()
    rows = sum(batch.num_rows for batch in decode(packs))
    seconds = time.process_time() - started
    if rows != records:
        raise RuntimeError(f"decoded {rows} of {records} records")
    return records / seconds


def _measure_reads(stage: Stage, results: Results, run: RunSettings) -> None:
    work = scaled(_RAW, run.scale)
    [raw] = stage.tube_topics(work, [_LAYOUT])
    packed = f"{topic_of(work, _LAYOUT)}_in_packs"
    stage.empty_topic(packed, _LAYOUT, work)
    _send(stage, packed, work.messages)
    options = {
        "packs": {**tube_options(stage.settings, packed), "payload": "inlong"},
        "raw": tube_options(stage.settings, raw),
    }
    titles = {"packs": "`payload=inlong`, packs of 200, snappy", "raw": "raw messages"}
    add_turns(
        results,
        run,
        {f"inlong/{who}": partial(_read_rate, stage, options[who], work.messages) for who in options},
        {
            f"inlong/{who}": f'{_RAW.title}, TubeMQ, {_LAYOUT.title}: Spark, `format("tubeclient")`, {titles[who]}'
            for who in options
        },
        "rows/s",
        stage.say,
    )


def _read_rate(stage: Stage, options: dict[str, str], rows: int) -> float:
    return rows / timed_read(stage.spark, "tubeclient", options, rows)


def _send(stage: Stage, topic: str, records: int) -> None:
    sent: list[Future[Any]] = []
    with Producer(stage.settings) as producer:
        producer.publish([topic])
        for pack in make_packs(records):
            sent.append(producer.submit(topic, pack, tag="clicks", attributes=_MESSAGE_ATTRIBUTES))
        for one in sent:
            one.result(_SEND_SECONDS)
    stage.say(f"filled TubeMQ's {topic} with {records:,} records in {len(sent):,} packs")
