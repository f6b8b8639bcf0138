"""A kept beginning that the brokers do not hold any more: what the query's error tells to do helps."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ
from offsets_store import GroupKey, OffsetsTable
from spark_source.cluster.cluster import TubeCluster
from spark_source.options.given import parse_options
from spark_source.progress.progress_table import ProgressTable
from tests.spark_source.as_spark import JsonPlanner
from tests.spark_source.feed import Feed
from tests.tubeclient_cli.offsets.runner import GROUP, OffsetsCommands
from tubeclient.errors import DataLoss
from tubeclient_cli.app import app

ROW = 28


class Bench:
    """One partition with 100 messages, and a table that has kept where a query began: its first batch did not
    complete. Since then 50 more messages came, and the first 120 expired."""

    def __init__(self, tube: EmbeddedTubeMQ, folder: Path) -> None:
        self.tube = tube
        self.table = str(folder / "offsets")
        self._feed = Feed.create(tube, "clicks", stores=1, partitions=1)

    def fail_once(self, starting: str) -> None:
        self._feed.send(100)
        query = self.query(starting)
        query.latest(query.initial(), None)
        query.close()
        self._feed.send(50)
        self.tube.expire("clicks", 120 * ROW)

    def query(self, starting: str, **more: str) -> JsonPlanner:
        given = self._feed.options(GROUP, startingOffsets=starting, offsetsTable=self.table, **more)
        options = parse_options({name: str(value) for name, value in given.items()})
        return JsonPlanner(options, TubeCluster(options), ProgressTable(options))

    def begins(self, starting: str, **more: str) -> int:
        query = self.query(starting, **more)
        try:
            return int(query.initial()["1:clicks:0"]["0"]) // ROW
        finally:
            query.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with EmbeddedTubeMQ(tmp_path / "tube") as tube:
        yield Bench(tube, tmp_path)


@pytest.mark.parametrize(("starting", "expired", "anew"), [("earliest", 120, 120), ("latest", 20, 150)])
def test_what_the_error_says_is_the_way_out(bench: Bench, starting: str, expired: int, anew: int) -> None:
    bench.fail_once(starting)
    for _ in range(2):
        with pytest.raises(DataLoss, match=f"at most {expired} messages have expired") as caught:
            bench.begins(starting)
    found = re.search(r"`tubeclient (offsets reset [^`]+)`, and start with a new checkpoint", str(caught.value))
    assert found is not None, caught.value
    command = [*shlex.split(found[1]), "--option", f"masterWebPort={bench.tube.master_web_port}", "--yes", "--force"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "the table drops the initial offsets of a query" in done.stdout
    assert bench.begins(starting) == anew


def test_reset_clears_the_start(bench: Bench) -> None:
    """A reset that moves no position still clears the stored start."""
    bench.fail_once("earliest")
    commands = OffsetsCommands(bench.table, bench.tube)
    table, key = OffsetsTable(bench.table), GroupKey(GROUP, ["clicks"])
    for _ in range(2):
        query = bench.query("latest")
        query.initial()
        query.close()
        assert table.keeps_start(key)
        commands.json("reset", "--topic", "clicks", "--to", "earliest", "--yes", "--force", *commands.cluster)
        assert not table.keeps_start(key)
