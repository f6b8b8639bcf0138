"""The upkeep of an offsets table: what it says of the groups, what it deletes, and its exit codes."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from typer.testing import CliRunner, Result

from embedded_tubemq import EmbeddedTubeMQ
from jobs.tend_offsets import load_tend, tend_offsets
from offsets_store import GroupKey, OffsetsTable, PartitionProgress
from tests.spark_source.feed import Feed
from tests.tubeclient_cli.offsets.query import Query, minutes_ago
from tests.tubeclient_cli.offsets.runner import GROUP
from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, WEB_PORT_VARIABLE
from tubeclient_cli.common.terminal import script_app

ROOT = Path(__file__).resolve().parents[2]
KEY = PartitionKey(1, "clicks", 0)
WEEKS_S = 14 * 24 * 3600


class Place:
    """A topic, and an offsets table with a group that has read it."""

    def __init__(self, tube: EmbeddedTubeMQ, folder: Path) -> None:
        self.folder = folder
        self.table = OffsetsTable(str(folder / "offsets"))
        self.feed = Feed.create(tube, "clicks", stores=1, partitions=1)
        self.feed.send(20, time=minutes_ago(40))
        with closing(Query(self.feed, str(folder / "offsets"), [KEY], 60 * 30)) as query:
            assert query.batch() == 20

    def settings(self, more: str = "", masters: str | None = None) -> Path:
        path = self.folder / "tend.toml"
        tube = self.feed.tube
        path.write_text(
            f'[tend]\noffsets-table = "{self.folder}/offsets"\nmaster-servers = "{masters or tube.master_address}"\n'
            f'{more}\n[source]\nmasterWebPort = {tube.master_web_port}\nrpcTimeout = "1s"\n'
        )
        return path

    def run(self, *words: str, more: str = "", masters: str | None = None) -> Result:
        settings = self.settings(more, masters)
        return CliRunner().invoke(script_app(tend_offsets), ["--settings", str(settings), *words])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with EmbeddedTubeMQ(tmp_path / "tube") as tube:
        yield Place(tube, tmp_path)


def test_each_group_is_told_and_old_files_are_deleted(place: Place) -> None:
    run = place.table.open_run(GroupKey("other", ["clicks"]), 1)
    run.record([PartitionProgress(KEY, 560, 560, 0)])
    orphan = next((place.folder / "offsets").glob("consumerGroup=*")) / "part-orphan.parquet"
    orphan.write_bytes(b"")
    os.utime(orphan, (time.time() - WEEKS_S,) * 2)
    done = place.run()
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    for group in (GROUP, "other"):
        assert f"group '{group}' on clicks: OK" in lines
        assert any(line.startswith(f"group '{group}' on clicks: commit 1 of ") for line in lines)
    assert lines[-1] == f"done: 1 files of {place.folder}/offsets deleted"
    assert not orphan.exists()


def test_the_environment_names_masters_and_web_port_if_the_file_does_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tube = place.feed.tube
    monkeypatch.setenv(MASTERS_VARIABLE, tube.master_address)
    monkeypatch.setenv(WEB_PORT_VARIABLE, str(tube.master_web_port))
    path = place.folder / "tend.toml"
    path.write_text(f'[tend]\noffsets-table = "{place.folder}/offsets"\n')
    done = CliRunner().invoke(script_app(tend_offsets), ["--settings", str(path)])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    # The file prevails.
    place.settings(masters="127.0.0.1:1")
    assert load_tend(path).master_servers == "127.0.0.1:1"


def test_a_group_that_is_not_well_is_exit_code_1_and_the_table_is_cleaned_up(place: Place) -> None:
    place.feed.send(5, time=minutes_ago(20))
    done = place.run("--json")
    document = json.loads(done.stdout)
    [group] = document["groups"]
    assert (done.exit_code, group["consumerGroup"], group["status"]["verdict"]) == (1, GROUP, "STOP")
    assert [one["nextOffset"] for one in group["topicSets"][0]["partitions"]] == [560]
    assert document["filesDeleted"] == 0
    assert list((place.folder / "offsets" / "_delta_log").glob("*.checkpoint.parquet"))


def test_a_cluster_that_is_away_leaves_the_positions_and_is_exit_code_3(place: Place) -> None:
    done = place.run(masters="127.0.0.1:1")
    assert done.exit_code == 3, done.output
    [line] = done.stderr.splitlines()
    assert line.startswith(f"{GROUP}: [MASTER_UNREACHABLE] ")
    assert "1:clicks:0" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("done: 0 files of ")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rowVersion": 2}, "[OFFSETS_TABLE_SCHEMA] the offsets table's rows of group strange have version 2"),
        ({"topicSet": "a b"}, "[OFFSETS_TABLE_SCHEMA] the offsets table's row of group 'strange', broker 1"),
        ({"readers": "x"}, "[OFFSETS_TABLE_UNUSABLE] the offsets table has readers of partition"),
    ],
)
def test_a_group_that_cannot_be_read_leaves_the_others_and_the_upkeep(
    place: Place, changed: dict[str, object], said: str
) -> None:
    rows = DeltaTable(str(place.folder / "offsets")).to_pyarrow_table().slice(0, 1)
    for name, value in {"consumerGroup": "strange", **changed}.items():
        at = rows.column_names.index(name)
        rows = rows.set_column(at, rows.field(at), pa.array([value], rows.field(at).type))
    write_deltalake(str(place.folder / "offsets"), rows, mode="append")
    done = place.run()
    assert done.exit_code in (2, 3), done.output
    [line] = done.stderr.splitlines()
    assert line.startswith(f"strange: {said}")
    assert "1:clicks:0" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("done: ")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ('consumer-groups = ["nobody"]', "has nothing of group nobody; check both names"),
        ("retention-hours = 0", "keep the history of one hour at least"),
        ('consumer-group = "a"', r"consumer-group in [tend] is unknown; did you mean consumer-groups?"),
        ("[storage-options]\nKEY = 1234567", "KEY in [storage-options] must be a text"),
        ('[sink]\ntopic = "a"', "[sink] is unknown"),
    ],
)
def test_wrong_settings_are_one_line_and_exit_code_2(place: Place, more: str, words: str) -> None:
    done = place.run(more=more)
    assert (done.exit_code, done.stdout) == (2, ""), done.output
    [line] = done.stderr.splitlines()
    assert line.startswith("tend_offsets.py: [INVALID_SETTING] ")
    assert words in line
    assert "1234567" not in line


def test_a_table_that_is_not_there_is_not_made(place: Place) -> None:
    settings = place.settings()
    settings.write_text(settings.read_text().replace("/offsets", "/nothing"))
    done = CliRunner().invoke(script_app(tend_offsets), ["--settings", str(settings)])
    assert done.exit_code == 2
    assert "there is no Delta table at" in done.stderr
    assert not (place.folder / "nothing").exists()


def test_the_shipped_settings_are_valid_and_what_is_missing_is_named(tmp_path: Path) -> None:
    settings = load_tend(ROOT / "conf" / "tend.toml")
    assert (settings.offsets_table, settings.consumer_groups, settings.retention_hours) == ("/lake/_offsets", (), None)
    path = tmp_path / "tend.toml"
    path.write_text("[tend]\n")
    with pytest.raises(ConfigurationError, match=r"\[tend\] lacks offsets-table, master-servers$"):
        load_tend(path)
