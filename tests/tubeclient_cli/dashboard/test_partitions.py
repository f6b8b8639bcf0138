"""The partitions of a group, with what the brokers say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.tubeclient_cli.dashboard.world import broker, cluster, group, key, read
from tubeclient.keys import StoreBounds, StoreKey, TopicLayout
from tubeclient_cli.dashboard.partitions import map_json, partition_states, rows_behind, sums_json

STORE = StoreKey(1, "clicks", 0)


def test_without_the_cluster_it_is_the_lag_of_the_commit() -> None:
    states = partition_states(group(read(key(0), 3, 10), read(key(10_000), 3)), None)
    assert [(state.rows_behind, state.silent) for state in states] == [(7, False), (None, False)]
    assert rows_behind(states) is None


def test_the_end_of_now_wins_and_expired_rows_do_not_count_as_left() -> None:
    there = cluster(ends={STORE: StoreBounds(5 * 28, 20 * 28)})
    [state] = partition_states(group(read(key(0), 3, 10)), there)
    assert (state.rows_behind, state.expired) == (15, 2)


def test_the_end_of_a_silent_brokers_partition_is_that_of_the_commit() -> None:
    there = cluster(broker(1, "connection refused"), broker(2), ends={StoreKey(2, "clicks", 0): StoreBounds(0, 280)})
    states = partition_states(group(read(key(0), 3, 10), read(key(0, 2), 3, 4)), there)
    assert [(state.rows_behind, state.silent) for state in states] == [(7, True), (7, False)]


def test_partitions_that_the_group_has_not_begun_count_from_their_beginning() -> None:
    there = cluster(
        layouts=[TopicLayout("clicks", 1, 1, 2, True), TopicLayout("other", 1, 1, 5, True)],
        ends={STORE: StoreBounds(28, 280)},
    )
    states = partition_states(group(read(key(0), 10)), there)
    assert [(str(state.partition), state.next_offset, state.rows_behind) for state in states] == [
        ("1:clicks:0", 280, 0),
        ("1:clicks:1", None, 9),
    ]


def test_a_store_that_was_never_written_to_has_nothing_to_read() -> None:
    there = cluster(layouts=[TopicLayout("clicks", 1, 1, 1, True)])
    [state] = partition_states(group(read(key(0, topic="other"), 0, 0), topics=["clicks", "other"]), there)[:1]
    assert (state.next_offset, state.rows_behind) == (None, 0)


def test_a_store_counts_once_by_its_partition_that_is_furthest_behind() -> None:
    states = partition_states(group(read(key(0), 3, 10), read(key(1), 8, 10), read(key(10_000), 0, 1)), None)
    assert rows_behind(states) == 7 + 1
    assert sums_json(states, lambda state: state.node_id) == [
        {"name": 0, "partitions": 3, "behind": 3, "rowsBehind": 8}
    ]


def test_nodes_that_share_a_store_share_its_lag() -> None:
    rows = [read(key(0), 3, 10, 0), read(key(1), 3, 10, 1), read(key(2), 10, 10, 2), read(key(10_000), 0, 4, 0)]
    states = partition_states(group(*rows), None)
    behind = {one["name"]: one["rowsBehind"] for one in sums_json(states, lambda state: state.node_id)}
    assert behind == {0: 3 + 4, 1: 4, 2: 0}
    assert sum(behind.values()) == rows_behind(states)
    unknown = partition_states(group(read(key(0), 3, 10, 0), read(key(1), 3, None, 1)), None)
    assert [one["rowsBehind"] for one in sums_json(unknown, lambda state: state.node_id)] == [7, None]


@given(st.sets(st.tuples(st.integers(1, 3), st.sampled_from("ab"), st.integers(0, 30)), min_size=1))
def test_a_map_has_each_partition_once_in_order(numbers: set[tuple[int, str, int]]) -> None:
    rows = [read(key(number, broker_id, topic), 0, 10**number) for broker_id, topic, number in numbers]
    states = partition_states(group(*rows, topics=["a", "b"]), None)
    found = map_json(states)
    unfolded = [(b, topic, n) for b, topic, first, many in found["runs"] for n in range(first, first + many)]
    assert unfolded == sorted(numbers)
    assert list(found["levels"]) == [str(min(9, number + 1)) for _, _, number in unfolded]
    assert found["nodes"] == [0] * len(numbers)
