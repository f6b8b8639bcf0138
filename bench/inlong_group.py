"""A whole InLong group into Delta: twenty streams by one job, beside one stream of as many records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bench.contents import table_rows
from bench.measuring import COST, Results, Side, spark_cpu, timed
from bench.stage import TASKS, Stage
from tubeclient import Producer
from tubeclient.inlong import RecordGroup, encode_pack

__all__ = ["measure_inlong_group"]

_RECORDS: Final = 400_000
_IN_A_PACK: Final = 100
_STREAMS: Final = tuple(f"stream_{number:02}" for number in range(20))
_BEGAN_MS: Final = 1_795_000_020_000


def measure_inlong_group(stage: Stage, results: Results) -> None:
    """JSON of two columns. Each side has a topic of its own: a round sends so many new records, which its job takes."""
    packs = max(1, round(_RECORDS * stage.scale) // _IN_A_PACK // len(_STREAMS)) * len(_STREAMS)
    sides = {
        "one stream": _job(stage, "one", packs, _STREAMS[:1]),
        "twenty streams, one job": _job(stage, "together", packs, _STREAMS),
    }
    results.take_turns(f"an InLong group, {packs * _IN_A_PACK // 1000} k records", sides)


def _job(stage: Stage, group: str, packs: int, streams: Sequence[str]) -> Side:
    from tubeclient_ingest.job import Ingest

    records = packs * _IN_A_PACK
    tables = f"{stage.folder}/{group}/{{stream}}"
    job = Ingest(
        stage.spark,
        target=tables,
        inlong_group=group,
        format="json",
        schema="id BIGINT, text STRING",
        master_servers=stage.tubemq.master_address,
        consumer_group=group,
        source_count=TASKS,
        source_options={"masterWebPort": str(stage.tubemq.master_web_port)},
    )
    stage.empty_topic(group, 10_000)

    def measure() -> Mapping[str, float]:
        sent = _send(stage, group, packs, streams)
        before = spark_cpu(stage.spark)
        with timed() as running:
            job.run()
        spent = spark_cpu(stage.spark) - before
        for number, stream in enumerate(streams):
            _check(tables.format(stream=stream), range(sent // _IN_A_PACK)[number :: len(streams)])
        return {"k rows/s": records / running.seconds / 1000, COST: spent * 1e6 / records}

    return measure


def _check(table: str, packs: Sequence[int]) -> None:
    """RuntimeError: the table does not have each record of these packs once."""
    wanted = pa.concat_arrays([pa.array(range(pack * _IN_A_PACK, (pack + 1) * _IN_A_PACK)) for pack in packs])
    found = table_rows(table, ["id", "text"])
    right = pa.table({"id": wanted, "text": pc.utf8_lpad(wanted.cast(pa.string()), 80, "0")})
    if not found.cast(right.schema).equals(right):
        raise RuntimeError(f"{table} has {len(found)} rows, not {len(wanted)}, or others")


def _send(stage: Stage, group: str, packs: int, streams: Sequence[str]) -> int:
    """Returns how many records there are now. Each has a number of its own for ever."""
    there = stage.count(group)
    with Producer(stage.settings) as producer:
        producer.publish([group])
        for number in range(packs):
            attributes = {"groupId": group, "streamId": streams[number % len(streams)], "dt": str(_BEGAN_MS)}
            first = (there + number) * _IN_A_PACK
            records = [b'{"id":%d,"text":"%080d"}' % (one, one) for one in range(first, first + _IN_A_PACK)]
            producer.submit(group, encode_pack([RecordGroup(attributes, records)], made_ms=_BEGAN_MS))
        producer.flush()
    stage.await_messages(group, there + packs)
    return (there + packs) * _IN_A_PACK
