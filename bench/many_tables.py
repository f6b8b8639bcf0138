"""One topic into many Delta tables by one job, beside one table of as many records: an InLong group's streams, and a
database's tables by Canal's messages, whose columns the events say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from bench.contents import table_rows
from bench.measuring import COST, Results, Side, spark_cpu, timed
from bench.stage import TASKS, Stage
from tubeclient import Producer
from tubeclient.inlong import RecordGroup, encode_pack

__all__ = ["measure_database", "measure_inlong_group"]

_RECORDS: Final = 400_000
_IN_A_PACK: Final = 100
_STREAMS: Final = tuple(f"stream_{number:02}" for number in range(20))
_TABLES: Final = tuple(f"shop.t{number:02}" for number in range(50))
_BEGAN_MS: Final = 1_795_000_020_000

Bodies = Callable[[int, str], Sequence[bytes]]
"""Messages with the records of a pack, by its number and its stream."""


def measure_inlong_group(stage: Stage, results: Results) -> None:
    """JSON of two columns. Each side has a topic of its own: a round sends so many new records, which its job takes."""
    given = {"format": "json", "schema": "id BIGINT, text STRING"}
    records = _RECORDS // len(_STREAMS) // _IN_A_PACK * len(_STREAMS) * _IN_A_PACK
    sides = {
        "one stream": _job(stage, "one", _STREAMS[:1], _packs("one"), inlong_group="one", **given),
        "twenty streams, one job": _job(stage, "all", _STREAMS, _packs("all"), inlong_group="all", **given),
    }
    results.take_turns(f"an InLong group, {records // 1000} k records", sides)


def measure_database(stage: Stage, results: Results) -> None:
    """Canal's inserts of two columns."""
    given = {"format": "canal-json", "table_by": "database.table"}
    records = _RECORDS // len(_TABLES) // _IN_A_PACK * len(_TABLES) * _IN_A_PACK
    sides = {
        "one table": _job(stage, "of_one", _TABLES[:1], _canal, **given),
        "fifty tables, one job": _job(stage, "of_all", _TABLES, _canal, **given),
    }
    results.take_turns(f"a database's tables, {records // 1000} k records by Canal", sides)


def _job(stage: Stage, topic: str, streams: Sequence[str], bodies: Bodies, **given: Any) -> Side:
    from tubeclient_ingest.job import Ingest

    packs = max(1, round(_RECORDS * stage.scale) // _IN_A_PACK // len(_TABLES)) * len(_TABLES)
    records = packs * _IN_A_PACK
    tables = f"{stage.folder}/{topic}/{{stream}}"
    job = Ingest(
        stage.spark,
        target=tables,
        master_servers=stage.tubemq.master_address,
        consumer_group=topic,
        topics=(topic,),
        source_count=TASKS,
        source_options={"masterWebPort": str(stage.tubemq.master_web_port)},
        **given,
    )
    stage.empty_topic(topic, 10_000)
    sent = 0

    def measure() -> Mapping[str, float]:
        nonlocal sent
        with Producer(stage.settings) as producer:
            producer.publish([topic])
            for number in range(sent, sent + packs):
                producer.submit_many(topic, bodies(number, streams[number % len(streams)]))
            producer.flush()
        sent += packs
        stage.await_messages(topic, sent * len(bodies(0, streams[0])))
        before = spark_cpu(stage.spark)
        with timed() as running:
            job.run()
        spent = spark_cpu(stage.spark) - before
        for number, stream in enumerate(streams):
            _check(tables.format(stream=stream), range(sent)[number :: len(streams)])
        return {"k rows/s": records / running.seconds / 1000, COST: spent * 1e6 / records}

    return measure


def _check(table: str, packs: Sequence[int]) -> None:
    """RuntimeError: the table does not have each record of these packs once."""
    wanted = pa.concat_arrays([pa.array(range(pack * _IN_A_PACK, (pack + 1) * _IN_A_PACK)) for pack in packs])
    found = table_rows(table, ["id", "text"])
    right = pa.table({"id": wanted, "text": pc.utf8_lpad(wanted.cast(pa.large_string()), 80, "0")})
    if not found.cast(right.schema).equals(right):
        raise RuntimeError(f"{table} has {len(found)} rows, not {len(wanted)}, or others")


def _packs(group: str) -> Bodies:
    def bodies(number: int, stream: str) -> Sequence[bytes]:
        attributes = {"groupId": group, "streamId": stream, "dt": str(_BEGAN_MS)}
        first = number * _IN_A_PACK
        records = [b'{"id":%d,"text":"%080d"}' % (one, one) for one in range(first, first + _IN_A_PACK)]
        return [encode_pack([RecordGroup(attributes, records)], made_ms=_BEGAN_MS)]

    return bodies


def _canal(number: int, stream: str) -> Sequence[bytes]:
    database, _, table = stream.encode().partition(b".")
    first = number * _IN_A_PACK
    return [
        b'{"data":[{"id":"%d","text":"%080d"}],"database":"%b","es":1795000020000,"id":%d,"isDdl":false,'
        b'"mysqlType":{"id":"bigint","text":"varchar(80)"},"old":null,"pkNames":["id"],"sql":"",'
        b'"sqlType":{"id":-5,"text":12},"table":"%b","ts":1795000020001,"type":"INSERT"}'
        % (one, one, database, one, table)
        for one in range(first, first + _IN_A_PACK)
    ]
