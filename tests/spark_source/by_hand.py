"""A query on real servers without Spark; the tests make Spark's calls."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, Protocol

from spark_source.cluster.cluster import TubeCluster
from spark_source.options.given import parse_options
from spark_source.progress.progress_table import ProgressTable
from spark_source.read.task_read import read_task
from tests.spark_source.as_spark import JsonPlanner
from tests.waiting import wait_for

__all__ = ["Query"]


class Masters(Protocol):
    """Where a cluster is, whoever's it is."""

    @property
    def master_address(self) -> str: ...

    @property
    def master_web_port(self) -> int: ...


class Query:
    """What Spark would do: it keeps the offsets, asks for batches and reads their tasks."""

    def __init__(self, tube: Masters, **more: object) -> None:
        given = {
            "masterServers": tube.master_address,
            "masterWebPort": tube.master_web_port,
            "consumerGroup": "pair",
            "sourceCount": 2,
            "retryLimit": "2s",
            "partitionRefreshInterval": "1s",
            **more,
        }
        self.options = parse_options({name: str(value) for name, value in given.items()})
        self.checkpoint: dict[str, Any] | None = None
        self.rows: list[bytes] = []

    @contextlib.contextmanager
    def run(self) -> Iterator[JsonPlanner]:
        """The planner of one run, from the checkpoint on, as text has kept it."""
        one = JsonPlanner(self.options, TubeCluster(self.options), ProgressTable(self.options))
        try:
            self.checkpoint = json.loads(json.dumps(self.checkpoint or one.initial()))
            yield one
        finally:
            one.close()

    def batch(self, one: JsonPlanner, max_rows: int | None = None) -> dict[str, Any]:
        """Plan and read one batch, if there is one; returns where the query stands."""
        assert self.checkpoint is not None
        end = one.latest(self.checkpoint, max_rows)
        for task in one.partitions(self.checkpoint, end) if end != self.checkpoint else ():
            for read in read_task(self.options, task):
                self.rows += read.column("value").to_pylist()
        self.checkpoint = end
        return end

    def until(self, one: JsonPlanner, count: int) -> None:
        wait_for(lambda: self.batch(one) and len(self.rows) >= count, f"{count} rows")
