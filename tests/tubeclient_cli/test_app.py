"""The command line: its help and wrong arguments."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tests.tubeclient_cli.clusters import ClusterCommands
from tubeclient.keys import PartitionKey
from tubeclient_cli.app import app

HEAVY = {"pyspark", "py4j", "delta", "deltalake", "pyarrow", "pandas", "numpy", "aiohttp", "asyncio", "offsets_store"}
"""Each takes longer to import than everything that a look at a cluster needs."""

IMPORTS = """
import json, sys
from tubeclient_cli.app import app
try:
    app(sys.argv[1:])
finally:
    print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} | {
        ".".join(name.split(".")[:2]) for name in sys.modules})))
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ingest"], "are missing"),
        (["ingest", "--option", "geheim"], "--option takes NAME=VALUE"),
        (["ingest", "--conf", "=geheim"], "--conf takes NAME=VALUE"),
        (["ingest", "--settings", "nothere.toml"], "cannot be read"),
    ],
)
def test_wrong_arguments(arguments: list[str], said: str) -> None:
    """Wrong arguments exit with 2 before Spark starts, and the output shows no secret."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert "geheim" not in result.output


def test_interrupt_during_imports() -> None:
    """Imports take most of a short command's time."""
    script = """
import signal, sys, types
class App(types.ModuleType):
    def __getattr__(self, name):
        signal.raise_signal(signal.SIGINT)
sys.modules["tubeclient_cli.app"] = App("tubeclient_cli.app")
from tubeclient_cli.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def imported(*words: str) -> set[str]:
    """The top packages, and their parts, that a command imports."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, *words],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("words", [["--help"], ["topics", "list", "--help"], ["offsets", "reset", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    assert imported(*words) & (HEAVY | {"google.protobuf", "spark_source", "ssl", "rich.console"}) == set()


def test_a_look_at_a_cluster_imports_no_spark(tmp_path: Path) -> None:
    with EmbeddedTubeMQ(tmp_path, [TopicConfig("clicks")]) as tube:
        found = imported("topics", "list", *ClusterCommands.of(tube).where)
    assert found & (HEAVY | {"rich.markdown"}) == set()


def test_offsets_commands_import_no_spark(tmp_path: Path) -> None:
    """pyarrow would import pandas to make times."""
    uri = str(tmp_path / "offsets")
    OffsetsTable(uri).open_run(GroupKey("etl", ["clicks"]), 1).record(
        [PartitionProgress(PartitionKey(1, "clicks", 0), 28, 56, 0)]
    )
    where = ("--offsets-table", uri)
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks")]) as tube:
        cluster = (*ClusterCommands.of(tube).where, "--consumer-group", "etl")
        for words in (("list", *where), ("show", *where, *cluster)):
            assert imported("offsets", *words) & {"pyspark", "py4j", "delta", "pandas"} == set()
