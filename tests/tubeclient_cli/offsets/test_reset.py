"""`tubeclient offsets reset`: each place to go to, what it refuses, and that a dry run is one."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedded_tubemq import EmbeddedTubeMQ
from offsets_store import GroupKey, OffsetsTable, SupersededRun
from tests.spark_source.feed import Feed
from tests.tubeclient_cli.offsets.runner import GROUP, OffsetsCommands, at
from tests.waiting import wait_for
from tubeclient import Admin, ClientBalanceConsumer, ClientSettings
from tubeclient.keys import PartitionKey

KEY = GroupKey(GROUP, ["clicks"])
A, B = PartitionKey(1, "clicks", 0), PartitionKey(1, "clicks", 10_000)
LONG_AGO_MS = 60_000
BACK, HERE = '{"1:clicks:0": 84, "1:clicks:10000": 28}', '{"1:clicks:0": 140, "1:clicks:10000": 56}'


@pytest.fixture(scope="module")
def tube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedTubeMQ]:
    """Ten messages in each of two partitions, in stores of their own: five of 03:04 and five of 03:05; the first of
    each has expired."""
    with EmbeddedTubeMQ(tmp_path_factory.mktemp("tube")) as running:
        feed = Feed.create(running, "clicks", stores=2, partitions=1)
        feed.send(10, time="202401020304")
        for store_id in (0, 1):
            running.expire("clicks", 28, store_id=store_id)
        feed.send(10, time="202401020305")
        yield running


@pytest.fixture
def offsets(tube: EmbeddedTubeMQ, tmp_path: Path) -> OffsetsCommands:
    """A group at 140 and 56, whose last commit is older than the lease."""
    commands = OffsetsCommands(str(tmp_path / "offsets"), tube)
    run = OffsetsTable(commands.uri, clock_ms=lambda: time.time_ns() // 1_000_000 - LONG_AGO_MS).open_run(KEY, 2)
    run.record(at({A: 84, B: 28}))
    run.record(at({A: 140, B: 56}))
    return commands


def files(folder: str) -> list[tuple[str, int]]:
    return sorted((str(path), path.stat().st_mtime_ns) for path in Path(folder).rglob("*"))


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("earliest", {A: 28, B: 28}),
        ("latest", {A: 280, B: 280}),
        ("2024-01-02T03:05Z", {A: 140, B: 140}),
        ("2024-01-02T11:05+08:00", {A: 140, B: 140}),
        ("2024-01-02T04:00", {A: 280, B: 280}),  # nothing so late: what comes next
        ('{"1:clicks:0": 112}', {A: 112, B: 56}),
        ('{"1:clicks:0": 112, "default": "latest"}', {A: 112, B: 280}),
    ],
)
def test_where_a_group_goes(offsets: OffsetsCommands, where: str, expected: dict[PartitionKey, int]) -> None:
    before = offsets.table.latest(KEY)
    found = offsets.json("reset", "--to", where, "--yes", *offsets.cluster)
    assert found["changed"] is True
    after = offsets.table.latest(KEY)
    assert before is not None
    assert after is not None
    assert after.positions == expected
    assert (after.sequence, after.source_count) == (3, 2)
    assert after.run_epoch > before.run_epoch
    assert after.client_version.endswith(" (offsets reset)")
    assert {row.end_offset for row in after.partitions} == {280}
    assert [(m["partition"], m["from"], m["to"]) for m in found["moves"]] == [
        (str(key), before.positions[key], at) for key, at in expected.items() if at != before.positions[key]
    ]


def test_dry_run(offsets: OffsetsCommands) -> None:
    """A dry run prints what would move and changes nothing."""
    before = files(offsets.uri)
    text = offsets.text("reset", "--to", '{"1:clicks:0": 84, "1:clicks:10000": 140}', "--dry-run", *offsets.cluster)
    assert "\n1:clicks:0 140 84 -2\n1:clicks:10000 56 140 3\n" in text
    assert files(offsets.uri) == before


def test_it_asks_and_no_is_no(offsets: OffsetsCommands) -> None:
    refused = offsets.run("reset", "--to", BACK, answer="n\n")
    assert (refused.exit_code, "nothing was changed" in refused.stderr) == (1, True)
    assert offsets.positions() == {"1:clicks:0": 140, "1:clicks:10000": 56}
    offsets.text("reset", "--to", BACK, answer="y\n")
    assert offsets.positions() == {"1:clicks:0": 84, "1:clicks:10000": 28}
    assert "--json does not prompt; add --yes" in offsets.error("reset", "--to", HERE, "--json")


@pytest.mark.parametrize(("flag", "topics"), [("--topic", "clicks"), ("--topic-pattern", "c.*")])
def test_a_reset_of_named_topics_creates_the_table(
    offsets: OffsetsCommands, tmp_path: Path, flag: str, topics: str
) -> None:
    offsets.uri = str(tmp_path / "new")
    offsets.json("reset", "--to", "latest", flag, topics, "--yes", *offsets.cluster)
    [found] = offsets.json("show")["topicSets"]
    assert {each["partition"]: each["nextOffset"] for each in found["partitions"]} == {str(A): 280, str(B): 280}


def test_targets_outside_the_data(offsets: OffsetsCommands) -> None:
    """A target that brokers do not have becomes the nearest offset that they do have."""
    found = offsets.json("reset", "--to", '{"1:clicks:0": 0, "1:clicks:10000": 2800}', "--yes", *offsets.cluster)
    assert offsets.positions() == {"1:clicks:0": 28, "1:clicks:10000": 280}
    assert found["warnings"] == [
        "1:clicks:0 would be at 0, but the broker holds 28 to 280; using 28",
        "1:clicks:10000 would be at 2800, but the broker holds 28 to 280; using 280",
    ]


def test_recent_record_needs_force(offsets: OffsetsCommands) -> None:
    """A reset is refused without --force if the group recorded a moment ago."""
    query = offsets.table.open_run(KEY, 2)
    query.record(at({A: 168, B: 56}))
    assert "less than 30 s ago, and may be alive" in offsets.error("reset", "--to", BACK, "--json", "--yes")
    assert offsets.positions() == {"1:clicks:0": 168, "1:clicks:10000": 56}
    offsets.json("reset", "--to", BACK, "--yes", "--force")
    assert offsets.positions() == {"1:clicks:0": 84, "1:clicks:10000": 28}
    with pytest.raises(SupersededRun):
        query.record(at({A: 196, B: 56}))
    assert offsets.positions() == {"1:clicks:0": 84, "1:clicks:10000": 28}


def test_live_consumers_need_force(offsets: OffsetsCommands, tube: EmbeddedTubeMQ) -> None:
    """A reset is refused without --force if the master lists consumers of the group."""
    settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
    more = ["--to", "earliest", "--json", "--yes", *offsets.cluster]
    with ClientBalanceConsumer(settings, GROUP, ["clicks"], source_count=1, node_id=0) as consumer:
        text = offsets.error("reset", *more)
        assert "group clicks_etl is live: the master lists 1 of its consumers" in text
        assert consumer.consumer_id in text
        assert offsets.positions() == {"1:clicks:0": 140, "1:clicks:10000": 56}
        offsets.json("reset", "--force", *more)
        assert offsets.positions() == {"1:clicks:0": 28, "1:clicks:10000": 28}
    wait_for(lambda: not Admin(settings).group(GROUP).members, "the consumer to leave")


def test_consumers_join_during_the_question(
    offsets: OffsetsCommands, tube: EmbeddedTubeMQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset changes nothing if consumers join while the user is asked."""
    settings = ClientSettings((tube.master_address,), master_web_port=tube.master_web_port)
    before = offsets.positions()
    with contextlib.ExitStack() as running:

        def starts(*_: object, **__: object) -> bool:
            running.enter_context(ClientBalanceConsumer(settings, GROUP, ["clicks"], source_count=1, node_id=0))
            return True

        monkeypatch.setattr("typer.confirm", starts)
        done = offsets.run("reset", "--to", "earliest", *offsets.cluster)
    assert (done.exit_code, "group clicks_etl is live" in done.stderr) == (2, True), done.output
    assert offsets.positions() == before
    wait_for(lambda: not Admin(settings).group(GROUP).members, "the consumer to leave")


def test_group_moves_during_the_question(offsets: OffsetsCommands, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reset changes nothing if another writer moves the group while the user is asked."""

    def somebody_else(*_: object, **__: object) -> bool:
        offsets.table.open_run(KEY, 2).record(at({A: 168, B: 56}))
        return True

    monkeypatch.setattr("typer.confirm", somebody_else)
    done = offsets.run("reset", "--to", BACK)
    assert (done.exit_code, "another writer moved" in done.stderr) == (2, True)
    assert offsets.positions() == {"1:clicks:0": 168, "1:clicks:10000": 56}


def test_a_reset_to_where_the_group_is_changes_nothing(offsets: OffsetsCommands) -> None:
    before = files(offsets.uri)
    # Nor is anything asked.
    assert "already has these positions, nothing moves" in offsets.text("reset", "--to", HERE, answer="")
    assert files(offsets.uri) == before


def test_several_topic_sets(offsets: OffsetsCommands) -> None:
    """The user must choose a set of topics if the group has several."""
    offsets.table.open_run(GroupKey(GROUP, pattern="c.*"), 1, force=True).record(at({A: 252}))
    more = ["--yes", "--force", "--json"]
    assert "has 2 sets of topics, clicks; pattern:c.*; choose one with" in offsets.error("reset", "--to", BACK, *more)
    offsets.json("reset", "--to", BACK, "--topic", "clicks", "--yes", "--force")
    assert offsets.positions() == {"1:clicks:0": 84, "1:clicks:10000": 28}
    offsets.json("reset", "--to", "latest", "--topic-pattern", "c.*", "--yes", "--force", *offsets.cluster)
    assert offsets.positions() == {"1:clicks:0": 280, "1:clicks:10000": 280}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--to", "yesterday"], "--to is 'yesterday'; write earliest, latest, a time such as"),
        (["--to", BACK, "--consumer-group", "nobody"], "has nothing for group nobody; check both names"),
        (["--to", "1960-01-01"], "is before 1970; write earliest"),
        (["--to", "2024-01-02T03:05", "--time-zone", "Moon"], "'Moon' is not a time zone; give a name"),
        (["--to", '{"1:clicks:0": 5}'], "28"),
        (["--to", '{"1:clicks:7": 28}'], "--to names partition 1:clicks:7, which does not exist"),
        (["--to", BACK, "--topic", "a", "--topic-pattern", "a"], "give --topic or --topic-pattern, not both"),
        (["--to", BACK, "--topic-pattern", "("], "--topic-pattern: "),
        (["--to", BACK, "--topic", "a,b"], "--topic: "),
    ],
)
def test_bad_input_is_one_line_and_changes_nothing(offsets: OffsetsCommands, arguments: list[str], text: str) -> None:
    before = files(offsets.uri)
    assert text in offsets.error("reset", "--yes", "--json", *arguments)
    assert files(offsets.uri) == before
