"""A replay: its settings, what a second run does, and what goes to a topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ
from jobs import replay_range as replay_job
from jobs.replay_range import ReplaySettings, load_replay, replay, replay_range
from tests.spark_source.feed import Feed
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.cluster import MASTERS_VARIABLE, WEB_PORT_VARIABLE
from tubeclient_cli.common.terminal import script_app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "conf" / "replay.toml"
RANGE = {"starting_offsets": '{"1:clicks:0": 280}', "ending_offsets": '{"1:clicks:0": 560}'}


def changed(**changes: Any) -> ReplaySettings:
    return replace(load_replay(SHIPPED), **changes)


def test_the_shipped_settings_are_what_the_source_gets() -> None:
    assert dict(load_replay(SHIPPED).read()) == {
        "masterWebPort": "8080",
        "masterServers": "10.0.0.1:8715",
        "consumerGroup": "clicks_replay",
        "subscribe": "clicks",
        "startingTimestamp": "1795257060000",
        "endingTimestamp": "1795257180000",
    }
    options = changed(**RANGE).read()
    assert (options["startingOffsets"], options["endingOffsets"]) == tuple(RANGE.values())
    assert {"startingTimestamp", "endingTimestamp"}.isdisjoint(options)


def test_the_environment_names_masters_and_web_port_if_the_file_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MASTERS_VARIABLE, "10.9.9.9:8715")
    monkeypatch.setenv(WEB_PORT_VARIABLE, "8081")
    shipped = load_replay(SHIPPED).read()
    assert (shipped["masterServers"], shipped["masterWebPort"]) == ("10.0.0.1:8715", "8080")
    path = tmp_path / "replay.toml"
    lines = SHIPPED.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(("master-servers", "masterWebPort"))))
    found = load_replay(path).read()
    assert (found["masterServers"], found["masterWebPort"]) == ("10.9.9.9:8715", "8081")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": " "}, "name is blank"),
        ({"starting_offsets": "group"}, "group, which moves"),
        ({"starting_offsets": "latest"}, "startingOffsets must not be latest"),
        ({"ending_offsets": "soon"}, "endingOffsets"),
        ({"source_options": {"endingTimestamp": "1"}}, "endingTimestamp has a setting of its own, ending-offsets"),
        ({"source_options": {"assign": "[]"}}, "assign has a setting of its own, topics"),
    ],
)
def test_wrong_settings_are_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        changed(**changes)


@given(st.permutations([("1:clicks:0", 28), ("1:clicks:1", 56), ("default", -2)]), st.sampled_from([None, 1]))
def test_a_range_is_the_same_however_it_is_written(places: list[tuple[str, int]], indent: int | None) -> None:
    wanted = changed(topics=("a", "b"), starting_offsets='{"1:clicks:0": 28, "1:clicks:1": 56, "default": -2}')
    other = changed(topics=("b", "a"), starting_offsets=json.dumps(dict(places), indent=indent))
    assert other.range_number == wanted.range_number > 0
    assert replace(other, ending_offsets="latest").range_number != wanted.range_number
    assert replace(other, topics=("a",)).range_number != wanted.range_number


def test_a_mistake_is_one_line_before_spark_is_started_and_shows_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUBE_PASSWORD", "geheim")
    path = tmp_path / "replay.toml"
    path.write_text(SHIPPED.read_text().replace("[source]", '[source]\nauthPassword = { env = "TUBE_PASSWORD" }'))
    done = CliRunner().invoke(script_app(replay_range), ["--settings", str(path)])
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("replay_range.py: [INVALID_SETTING] authPassword is given without authUser")
    path.write_text(path.read_text().replace("[source]", '[source]\nauthUser = "etl"'))
    settings = load_replay(path)
    assert settings.read()["authPassword"] == "geheim"
    assert "geheim" not in f"{line}{settings!r}{settings.read()!r}"


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    """Thirty messages."""
    with EmbeddedTubeMQ(tmp_path / "tube") as tube:
        feed = Feed.create(tube, "clicks", stores=1, partitions=1)
        feed.send(30, tags=("web",), time="202611211031")
        yield feed


@pytest.mark.spark
def test_a_name_is_written_once(
    feed: Feed, delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = str(tmp_path / "lake" / "again")
    places = {"master_servers": feed.tube.master_address, "target": target, **RANGE}
    settings = changed(**places, name="one", source_options={"masterWebPort": str(feed.tube.master_web_port)})

    def rows() -> int:
        return delta_spark.read.format("delta").load(target).count()

    assert replay(delta_spark, settings) == f"done: replay one is in {target}"
    assert replay(delta_spark, settings) == f"done: replay one was in {target} already; nothing was written"
    with pytest.raises(ConfigurationError, match="the name one of another range or other topics"):
        replay(delta_spark, replace(settings, ending_offsets='{"1:clicks:0": 840}', append=True))
    with pytest.raises(ConfigurationError, match=r"other rows, .* name another target, or set append = true"):
        replay(delta_spark, replace(settings, name="two"))
    assert rows() == 10
    two = replace(settings, name="two", append=True, starting_offsets="earliest", ending_offsets="latest")
    assert replay(delta_spark, two) == f"done: replay two is in {target}"
    assert rows() == 40

    # Another run with the name comes first: Delta takes no number below one that it has, without a word.
    ranges = [replace(two, name="three", ending_offsets=f'{{"1:clicks:0": {28 * n}}}') for n in (1, 2)]
    lower, higher = sorted(ranges, key=lambda one: one.range_number)

    def meanwhile(*_: object) -> bool:
        monkeypatch.undo()
        replay(delta_spark, higher)
        return False

    monkeypatch.setattr(replay_job, "_has_rows", meanwhile)
    with pytest.raises(ConfigurationError, match="another run with the name three came first"):
        replay(delta_spark, replace(lower, append=False))
