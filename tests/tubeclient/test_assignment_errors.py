"""Wrong names, missing hints and strategies of a user's own: one clear error each."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tubeclient import ConfigurationError, PartitionKey, assign
from tubeclient.assignment import Assignment, Hints, strategy_named

KEYS = [PartitionKey(1, "a", 0), PartitionKey(1, "a", 1), PartitionKey(2, "a", 0)]
ONE_EACH = dict(zip(KEYS, (0, 1, 1), strict=True))


@pytest.mark.parametrize(
    ("strategy", "hints", "said"),
    [
        (
            "hash",
            Hints(),
            r"'hash' is unknown; use one of averagely, .*, sticky, or your own as package.module:function",
        ),
        (":f", Hints(), "':f' is unknown"),
        ("a:", Hints(), "'a:' is unknown"),
        ("no.such.module:assign", Hints(), "module no.such.module cannot be imported: ModuleNotFoundError"),
        (f"{__name__}:nothing", Hints(), "has no nothing"),
        (f"{__name__}:KEYS", Hints(), "is not a function but"),
        ("sticky", Hints(), "sticky needs the hint previous"),
        ("backlog", Hints(), "backlog needs the hint lag"),
        ("backlog", Hints(lag={KEYS[1]: -1}), "the lag of partition 1:a:1 is -1 rows"),
        ("machine_room", Hints(), "machine_room needs the hint rooms"),
        ("machine_room", Hints(rooms={1: "x"}), "rooms has no room for broker 2, so nobody would read its partitions"),
        ("machine_room", Hints(rooms={1: "x", 2: "x"}, node_rooms={0: "x"}), "node_rooms has no room for node 1"),
        ("machine_room_nearby", Hints(rooms={1: "x", 2: "x"}), "machine_room_nearby needs the hint node_rooms"),
        ("config", Hints(), "config needs the hint plan"),
        ("config", Hints(plan={KEYS[0]: 0}), "the plan leaves out partition 1:a:1"),
        (
            "config",
            Hints(plan={**ONE_EACH, KEYS[2]: 2}),
            "partition 2:a:0 to node 2; with sourceCount 2 there are .* 1$",
        ),
        ("config", Hints(plan={**ONE_EACH, KEYS[2]: -1}), "partition 2:a:0 to node -1"),
        ("config", Hints(plan={**ONE_EACH, PartitionKey(9, "z", 0): 0}), "names the unknown partition 9:z:0"),
        ("consistent_hash", Hints(node_names=["x"]), "node_names names 1 nodes, but sourceCount is 2"),
        ("consistent_hash", Hints(node_names=["x", "x"]), "several nodes the name 'x'"),
        (f"{__name__}:forgets", Hints(), "forgets' gives partition 2:a:0 to no node"),
        (f"{__name__}:gives_twice", Hints(), "gives partition 1:a:0 to node 0 and again to node 1"),
        (f"{__name__}:invents", Hints(), "gives node 1 the unknown partition 3:a:0"),
        (f"{__name__}:lacks_a_node", Hints(), "returned 1 lists for 2 nodes"),
        (f"{__name__}:stumbles", Hints(), r"stumbles' failed: ZeroDivisionError"),
        (f"{__name__}:declines", Hints(), "^this cluster is not for assigning$"),
    ],
)
def test_what_is_wrong_is_said(strategy: str, hints: Hints, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        assign(strategy, KEYS, 2, hints)


def test_numbers_out_of_range() -> None:
    with pytest.raises(ConfigurationError, match="sourceCount must be 1 or more, not 0"):
        assign("modulo", [], 0)
    with pytest.raises(ConfigurationError, match="virtual_nodes must be 1 or more, not 0"):
        Hints(virtual_nodes=0)


def test_a_strategy_of_ones_own_is_called_by_module_and_function() -> None:
    name = f"{__name__}:last_takes_all"
    assert assign(name, reversed(KEYS), 2, Hints(virtual_nodes=3)) == [[], KEYS]
    assert strategy_named(name) is last_takes_all


def last_takes_all(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    assert list(keys) == KEYS
    assert hints.virtual_nodes == 3
    return [*([] for _ in range(source_count - 1)), list(reversed(keys))]


def forgets(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    return [[keys[0]], [keys[1]]]


def gives_twice(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    return [list(keys), [keys[0]]]


def invents(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    return [list(keys), [PartitionKey(3, "a", 0)]]


def lacks_a_node(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    return [list(keys)]


def stumbles(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    raise ZeroDivisionError


def declines(keys: Sequence[PartitionKey], source_count: int, hints: Hints) -> Assignment:
    raise ConfigurationError("this cluster is not for assigning")
