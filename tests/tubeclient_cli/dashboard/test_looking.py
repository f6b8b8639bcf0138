"""What is looked up at a table and a cluster, and what is said of that which cannot be read."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from offsets_store import GroupKey, OffsetsTable
from tests.tubeclient_cli.dashboard.world import key, read
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import StoreBounds, StoreKey
from tubeclient_cli.common.cluster import settings_of
from tubeclient_cli.dashboard.looking import Watcher, look_at_cluster

CLICKS = GroupKey("clicks_etl", ["clicks"])
VIEWS = GroupKey("clicks_etl", ["views"])


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "offsets")


def write(uri: str, *rows: int, group: GroupKey = CLICKS) -> None:
    run = OffsetsTable(uri).open_run(group, 1, force=True)
    for number in rows:
        run.record([read(key(0, topic=group.topics[0]), number, 100)])


def test_groups_with_their_commits(uri: str) -> None:
    watcher = Watcher(uri, {}, None)
    [said] = watcher.look().failures
    assert said.failure.startswith("there is no Delta table; check --offsets-table")
    write(uri, 10, 15, 40)
    write(uri, 1, group=GroupKey("other", ["views"]))
    clicks, other = watcher.look().groups or ()
    assert (clicks.progress.group, other.progress.group.consumer_group) == (CLICKS, "other")
    assert [one[key(0)].next_offset // 28 for _, one in sorted(clicks.commits.items())] == [10, 15, 40]
    assert clicks.past == OffsetsTable(uri).past("clicks_etl")
    [only] = Watcher(uri, {}, None, groups=["other", "unknown"]).look().groups or ()
    assert only.progress.group.consumer_group == "other"


def test_commits_stay_known_while_newer_ones_come(uri: str) -> None:
    write(uri, *range(1, 11))
    watcher = Watcher(uri, {}, None)
    watcher.look()
    write(uri, *range(11, 21))
    [found] = watcher.look().groups or ()
    assert found.past is not None
    assert [len(found.commits), len(found.past.positions[key(0)])] == [20, 10]


def test_a_run_of_new_topics_is_there_before_its_first_batch(uri: str) -> None:
    write(uri, 10)
    OffsetsTable(uri).open_run(VIEWS, 1, force=True).keep_initial("latest", {key(0, topic="views"): 28})
    before, now = Watcher(uri, {}, None).look().groups or ()
    assert (before.progress.group, before.past, now.progress.group) == (CLICKS, None, VIEWS)
    assert now.past is not None


def test_a_group_that_cannot_be_read_leaves_the_others(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(uri, 10)
    write(uri, 1, group=GroupKey("newer", ["views"]))
    DeltaTable(uri).update({"rowVersion": "2"}, predicate="\"consumerGroup\" = 'newer'")
    with monkeypatch.context() as lenient:
        for module in ("progress", "table"):
            lenient.setattr(f"offsets_store.{module}.group_name", str)
        write(uri, 1, group=GroupKey("1 bad\nname", ["views"]))
    found = Watcher(uri, {}, None).look()
    assert [group.progress.group for group in found.groups or ()] == [CLICKS]
    assert [one.failure.split(":")[0] for one in found.failures] == [
        "group '1 bad\\nname' is left out",
        "group 'newer' is left out",
    ]


def test_what_was_read_stays_while_the_table_cannot_be_read(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write(uri, 10)
    watcher = Watcher(uri, {"secret_key": "geheim"}, None)
    watcher.start()
    first = watcher.facts(30)

    def fail(_: OffsetsTable) -> list[str]:
        raise OSError("refused, with the key geheim")

    monkeypatch.setattr(OffsetsTable, "groups", fail)
    later = watcher.look()
    assert (later.groups, later.groups_at_ms) == (first.groups, first.groups_at_ms)
    [failure] = later.failures
    assert "refused" in failure.failure
    assert "geheim" not in failure.failure


def test_a_store_that_never_answers_holds_nobody_up() -> None:
    """Neither whoever asks, nor another thread: delta-rs might keep Python's lock."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "AWS_ACCESS_KEY_ID": "geheimname",
            "AWS_SECRET_ACCESS_KEY": "geheimnisvoll",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "timeout": "2s",
            "max_retries": "0",
        }
        watcher = Watcher("s3://lake/table", options, None)
        watcher.start()
        assert watcher.facts(0.3).groups is None
        done = threading.Event()
        threading.Timer(0.2, done.set).start()
        assert done.wait(1)
        found = watcher.facts(60)
    assert [one.place for one in found.failures] == ["s3://lake/table"]
    assert "geheim" not in str(found)


def test_brokers_layouts_ends_and_clients(tmp_path: Path, uri: str) -> None:
    topics = [TopicConfig("clicks", partitions=2)]
    with EmbeddedTubeMQ(tmp_path / "tube", topics, brokers=2) as tube:
        tube.load("clicks", [NewMessage(n % 2, b"x") for n in range(10)], broker_id=2)
        settings = settings_of(tube.master_address, {"masterWebPort": str(tube.master_web_port)})
        found = look_at_cluster(settings, [])
        assert found.ends[StoreKey(2, "clicks", 0)] == StoreBounds(0, 280)
        assert sum(len(layout.partitions()) for layout in found.layouts) == 4
        assert (found.members, found.silent) == ({}, frozenset())
        OffsetsTable(uri).open_run(CLICKS, 1).record([read(key(0, 2), 4, 4)])
        watcher = Watcher(uri, {}, settings)
        first = watcher.look()
        assert first.waits == {("clicks_etl", key(0, 2), 112): first.now_ms}
        tube.stop_broker(2, clean=False)
        found = look_at_cluster(settings, [])
        assert (found.silent, bool(found.brokers[1].failure)) == (frozenset({2}), True)
        with EmbeddedTubeMQ(tmp_path / "other", [TopicConfig("views")]) as other:
            mixed = settings_of(tube.master_address, {"masterWebPort": str(other.master_web_port)})
            with pytest.raises(ConfigurationError, match="it is another cluster's"):
                look_at_cluster(mixed, [])
    with pytest.raises(TubeError):
        look_at_cluster(settings, [])
    [failure] = watcher.look().failures
    assert (failure.name, failure.place) == ("cluster", tube.master_address)
