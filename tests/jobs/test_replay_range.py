"""A replay: its settings, what a second run does, and what goes to a topic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from jobs import replay_range as replay_job
from jobs.replay_range import ReplaySettings, load_replay, replay, replay_range
from tests.jobs.test_jobs_page import messages_of
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
    return replace(load_replay(SHIPPED, {}), **changes)


def test_the_shipped_settings_are_what_the_source_gets() -> None:
    assert dict(load_replay(SHIPPED, {}).read()) == {
        "masterWebPort": "8080",
        "masterServers": "10.0.0.1:8715",
        "consumerGroup": "clicks_replay",
        "subscribe": "clicks",
        "startingTimestamp": "1795257060000",
        "endingTimestamp": "1795257180000",
    }
    options = load_replay(SHIPPED, RANGE).read()
    assert (options["startingOffsets"], options["endingOffsets"]) == tuple(RANGE.values())
    assert {"startingTimestamp", "endingTimestamp"}.isdisjoint(options)


def test_the_environment_names_masters_and_web_port_if_the_file_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MASTERS_VARIABLE, "10.9.9.9:8715")
    monkeypatch.setenv(WEB_PORT_VARIABLE, "8081")
    shipped = load_replay(SHIPPED, {}).read()
    assert (shipped["masterServers"], shipped["masterWebPort"]) == ("10.0.0.1:8715", "8080")
    path = tmp_path / "replay.toml"
    lines = SHIPPED.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith(("master-servers", "masterWebPort"))))
    found = load_replay(path, {}).read()
    assert (found["masterServers"], found["masterWebPort"]) == ("10.9.9.9:8715", "8081")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": " "}, "name is blank"),
        ({"target": None}, "either target, a Delta table, or to-topic"),
        ({"to_topic": "other"}, "either target, a Delta table, or to-topic"),
        ({"to_master_servers": "10.1.0.1"}, "are for to-topic"),
        ({"sink_options": {"retryLimit": "5s"}}, "are for to-topic"),
        ({"starting_offsets": "group"}, "group, which moves"),
        ({"starting_offsets": "latest"}, "startingOffsets must not be latest"),
        ({"ending_offsets": "soon"}, "endingOffsets"),
        ({"source_options": {"endingTimestamp": "1"}}, "endingTimestamp has a setting of its own, ending-offsets"),
        ({"source_options": {"assign": "[]"}}, "assign has a setting of its own, topics"),
        ({"source_options": {"payload": "inlong"}, "target": None, "to_topic": "other"}, "whole messages needs raw"),
        ({"sink_options": {"payload": "inlong"}, "target": None, "to_topic": "other"}, "whole messages needs raw"),
        ({"sink_options": {"topic": "x"}, "target": None, "to_topic": "other"}, "a setting of its own, to-topic"),
    ],
)
def test_wrong_settings_are_told(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        changed(**changes)


def test_times_are_written_on_the_clock_on_which_they_are_read() -> None:
    zone = {"messagetimezone": "Asia/Shanghai"}
    settings = changed(source_options=zone, target=None, to_topic="other", to_master_servers="10.1.0.1:8715")
    assert dict(settings.write()) == {**zone, "topic": "other", "masterServers": "10.1.0.1:8715"}
    assert "attributes" in settings.read()["columns"]


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
    told = CliRunner().invoke(script_app(replay_range), ["--settings", str(path), "--name", " ", "--json"])
    assert json.loads(told.stdout) == {
        "event": "error",
        "condition": "INVALID_SETTING",
        "text": told.stderr.removeprefix("replay_range.py: ").rstrip(),
    }
    settings = load_replay(path, {})
    assert settings.read()["authPassword"] == "geheim"
    assert "geheim" not in f"{line}{settings!r}{settings.read()!r}"


@pytest.fixture
def feed(tmp_path: Path) -> Iterator[Feed]:
    """Thirty messages, and an empty topic."""
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("clicks_again")]) as tube:
        feed = Feed.create(tube, "clicks", stores=1, partitions=1)
        feed.send(30, tags=("web",), time="202611211031")
        yield feed


@pytest.mark.spark
def test_a_name_is_written_once_and_a_topic_gets_the_range(
    feed: Feed, delta_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = str(tmp_path / "lake" / "again")
    places = {"master_servers": feed.tube.master_address, "target": target, **RANGE}
    settings = changed(**places, name="one", source_options={"masterWebPort": str(feed.tube.master_web_port)})

    def rows() -> int:
        return delta_spark.read.format("delta").load(target).count()

    assert str(replay(delta_spark, settings)) == f"done: replay one is in {target} (version 0, 10 rows)"
    again = f"done: replay one was in {target} already (version 0, 10 rows); nothing was written"
    assert str(replay(delta_spark, settings)) == again
    with pytest.raises(ConfigurationError, match="the name one of another range or other topics"):
        replay(delta_spark, replace(settings, ending_offsets='{"1:clicks:0": 840}', append=True))
    with pytest.raises(ConfigurationError, match=r"other rows, .* name another target, or add --append"):
        replay(delta_spark, replace(settings, name="two"))
    assert rows() == 10
    two = replace(settings, name="two", append=True, starting_offsets="earliest", ending_offsets="latest")
    assert str(replay(delta_spark, two)) == f"done: replay two is in {target} (version 1, 30 rows)"
    assert rows() == 40

    # As a command with --json, in this session.
    monkeypatch.setattr("tubeclient_cli.common.session.make_session", lambda *_: delta_spark)
    monkeypatch.setattr("tubeclient_cli.common.session.end_session", lambda _: None)
    path = tmp_path / "replay.toml"
    shipped = SHIPPED.read_text().replace("10.0.0.1:8715", feed.tube.master_address)
    path.write_text(shipped.replace("masterWebPort = 8080", f"masterWebPort = {feed.tube.master_web_port}"))
    words = ["--settings", str(path), "--name", "two", "--target", target, "--json"]
    words += ["--starting-offsets", "earliest", "--ending-offsets"]
    first, last = map(json.loads, CliRunner().invoke(script_app(replay_range), [*words, "latest"]).stdout.splitlines())
    assert first["event"] == "starting"
    known = {"name": "two", "target": target, "to_topic": None, "written": False, "version": 1, "rows": 30}
    assert last == {"event": "done", **known}
    failed = CliRunner().invoke(script_app(replay_range), [*words, '{"1:clicks:9": 0}', "--name", "nine", "--append"])
    first, last = map(json.loads, failed.stdout.splitlines())
    assert (failed.exit_code, first["event"], last["event"]) == (1, "starting", "error")
    assert failed.stderr.splitlines()[-1] == f"replay_range.py: {last['text']}"
    monkeypatch.undo()

    ranges = [replace(two, name="three", ending_offsets=f'{{"1:clicks:0": {28 * n}}}') for n in (1, 2)]
    lower, higher = sorted(ranges, key=lambda one: one.range_number)

    def meanwhile(*_: object) -> bool:
        monkeypatch.undo()
        replay(delta_spark, lower)
        return False

    monkeypatch.setattr(replay_job, "_has_rows", meanwhile)
    with pytest.raises(ConfigurationError, match=r"has another range with the name three too, in version 2: .* while"):
        replay(delta_spark, replace(higher, append=False))

    sent = replace(settings, target=None, to_topic="clicks_again")
    said = str(replay(delta_spark, sent))
    assert said == "done: replay one was sent to topic clicks_again, at least once; a second run sends it again"
    assert messages_of(feed.tube, "clicks_again", 10) == Counter(
        (body, "web", "202611211031", (("k", "v"),)) for body in feed.sent[10:20]
    )
