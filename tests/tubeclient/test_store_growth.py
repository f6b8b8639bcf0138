"""What looks prove of partitions that are added: never that one begins behind its first message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tubeclient.keys import INDEX_ENTRY_BYTES as ROW
from tubeclient.keys import StoreBounds, StoreFiles, StoreKey
from tubeclient.positions.store_growth import StoreGrowth, grown

STORE = StoreKey(1, "t", 0)


class Store:
    """A store as its broker has it, and a reader who looks at it."""

    def __init__(self) -> None:
        self.partitions = 1
        self.written: list[int] = []
        """The partition of each message."""
        self.listed: int | None = None
        """A page that is being made has its list of partitions, and no ends yet."""
        self.growth: dict[StoreKey, StoreGrowth] = {}

    def look(self, files: StoreFiles | None) -> None:
        self.growth = grown(self.growth, {} if files is None else {STORE: files})

    def step(self, what: str) -> None:
        if what == "grow":
            self.partitions += 1
        elif what == "write":
            self.written += range(self.partitions)
        elif what == "list":
            self.listed = self.partitions - 1
        elif what == "ends" and self.listed is not None:
            self.look(StoreFiles(StoreBounds(0, len(self.written) * ROW), 0, self.listed))
            self.listed = None
        elif what == "silent":
            self.look(None)
        elif what == "by protocol":
            self.look(StoreFiles(StoreBounds(0, len(self.written) * ROW), -1))
        elif what == "tail lost" and self.listed is None:
            del self.written[len(self.written) // 2 :]
            self.look(StoreFiles(StoreBounds(0, len(self.written) * ROW), 0, self.partitions - 1))


STEPS = ["grow", "write", "list", "ends"] * 5 + ["silent", "by protocol", "tail lost"]


@given(st.lists(st.sampled_from(STEPS), min_size=60, max_size=60))
def test_no_message_lies_before_a_proven_beginning(steps: list[str]) -> None:
    store = Store()
    for step in steps:
        store.step(step)
        for partition_id in range(store.partitions + 1):
            first = store.written.index(partition_id) if partition_id in store.written else len(store.written)
            begin = store.growth[STORE].begin_of(partition_id) if STORE in store.growth else None
            assert begin is None or begin <= first * ROW


def pages(*looks: tuple[int, int] | None) -> StoreGrowth:
    """After looks at a store with (number of partitions, rows), or at a broker that said nothing of it."""
    growth: dict[StoreKey, StoreGrowth] = {}
    for look in looks:
        files = StoreFiles(StoreBounds(0, look[1] * ROW), 0, look[0] - 1) if look is not None else None
        growth = grown(growth, {} if files is None else {STORE: files})
    return growth[STORE]


def test_a_new_partition_begins_at_the_look_before_the_last_without_it() -> None:
    """The page without it may have been made while it came: its ends are younger than its list."""
    growth = pages((1, 5), (1, 7), (2, 9), (2, 30), (4, 50), (4, 60))
    assert [growth.begin_of(number) for number in range(5)] == [None, 5 * ROW, 9 * ROW, 9 * ROW, 50 * ROW]
