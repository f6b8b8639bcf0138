"""What looks prove of partitions that are added: never that one begins behind its first message."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tubeclient.keys import INDEX_ENTRY_BYTES as ROW
from tubeclient.keys import StoreBounds, StoreFiles
from tubeclient.positions.stores import StoreGrowth


class Store:
    """A store as its broker has it, and a reader who looks at it."""

    def __init__(self) -> None:
        self.partitions = 1
        self.written: list[int] = []
        """The partition of each message."""
        self.listed: int | None = None
        """A page that is being made has its list of partitions, and no ends yet."""
        self.growth = StoreGrowth()

    def look(self, files: StoreFiles) -> None:
        self.growth = self.growth.after(files)

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
            self.growth = StoreGrowth()  # a broker that did not answer
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
            begin = store.growth.begin_of(partition_id)
            assert begin is None or begin <= first * ROW
