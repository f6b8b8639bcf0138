"""A whole InLong group into Delta: twenty streams by one job, beside one stream of as many records, and twenty jobs.

Each table costs a round the same, whatever its rows. So there are rounds of two sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bench.measuring import COST, TASKS_COST, Results, Side, executors, spent, task_seconds, timed
from bench.stage import TASKS, Stage
from tubeclient import Producer
from tubeclient.inlong import RecordGroup, encode_pack

__all__ = ["measure_inlong_group"]

_RECORDS: Final = 400_000
_LONG_RECORDS: Final = 1_600_000
_IN_A_PACK: Final = 100
_STREAMS: Final = tuple(f"stream_{number:02}" for number in range(20))
_BEGAN_MS: Final = 1_795_000_020_000


def measure_inlong_group(stage: Stage, results: Results) -> None:
    """JSON of two columns. Each side has a topic of its own, and its tables are there before the rounds that count:
    a round sends so many new records, which its jobs take.

    The CPU time of the tasks leaves out the driver, which commits to a Delta table for each stream.
    """
    for records in (_RECORDS, _LONG_RECORDS):
        packs = max(len(_STREAMS), round(records * stage.scale) // _IN_A_PACK)
        sides = {
            "one stream": _jobs(stage, f"one_{records}", packs, _STREAMS[:1], [()]),
            "twenty streams, one job": _jobs(stage, f"together_{records}", packs, _STREAMS, [()]),
        }
        if records == _RECORDS:
            apart = _jobs(stage, "apart", packs, _STREAMS, [(one,) for one in _STREAMS])
            sides["twenty streams, a job for each"] = apart
        results.take_turns(f"an InLong group, {packs * _IN_A_PACK // 1000} k records", sides)


def _jobs(stage: Stage, group: str, packs: int, streams: Sequence[str], jobs: Sequence[Sequence[str]]) -> Side:
    """A job for each choice of streams; () is all of them."""
    from tubeclient_ingest.job import Ingest

    records = packs * _IN_A_PACK
    made = [
        Ingest(
            stage.spark,
            target=f"{stage.folder}/{group}/{number}/{{stream}}",
            inlong_group=group,
            streams=chosen,
            format="json",
            schema="id BIGINT, text STRING",
            master_servers=stage.tubemq.master_address,
            consumer_group=f"{group}_{number}",
            source_count=TASKS,
            source_options={"masterWebPort": str(stage.tubemq.master_web_port)},
        )
        for number, chosen in enumerate(jobs)
    ]
    stage.empty_topic(group, 10_000)

    def measure() -> Mapping[str, float]:
        _send(stage, group, packs, streams)
        before, tasks_before = executors(), task_seconds(stage.spark)
        with timed() as running:
            rows = sum(job.run().rows for job in made)
        if rows != records:
            raise RuntimeError(f"the jobs of {group} took {rows} rows, not {records}")
        return {
            "rows/s": records / running.seconds,
            TASKS_COST: (task_seconds(stage.spark) - tasks_before) * 1e6 / records,
            COST: spent(before) * 1e6 / records,
        }

    return measure


def _send(stage: Stage, group: str, packs: int, streams: Sequence[str]) -> None:
    there = stage.count(group)
    with Producer(stage.settings) as producer:
        producer.publish([group])
        for number in range(packs):
            attributes = {"groupId": group, "streamId": streams[number % len(streams)], "dt": str(_BEGAN_MS)}
            first = number * _IN_A_PACK
            records = [b'{"id":%d,"text":"%080d"}' % (one, one) for one in range(first, first + _IN_A_PACK)]
            producer.submit(group, encode_pack([RecordGroup(attributes, records)], made_ms=_BEGAN_MS))
        producer.flush()
    stage.await_messages(group, there + packs)
