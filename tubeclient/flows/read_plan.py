"""How a consumer reads: from where, how far ahead, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, get_args

from tubeclient.arguments import given_ms, whole_number
from tubeclient.counts import ReadCounts
from tubeclient.errors import ConfigurationError
from tubeclient.flows.message_pack import BadMessages, check_bad_messages
from tubeclient.flows.reader import Authority
from tubeclient.keys import PartitionKey

StartFrom = Literal["earliest", "latest", "always_latest"]


class BootstrapOffset(IntEnum):
    """Where reading a partition may begin, besides at an index offset."""

    STORED = -1
    """Continue at the group's position."""
    EARLIEST = -10
    """The first message that the broker holds."""
    LATEST = -11
    """After the last message that the broker holds."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How a consumer reads; the same for all its partitions. ConfigurationError for invalid values."""

    group: str
    client_id: str = ""
    filters: Mapping[str, frozenset[str]] = field(default_factory=dict)
    later_topics: Collection[str] = ()
    """Topics of a pattern that came while the consumer ran: if the group has no position there, they begin with their
    first messages."""
    start_from: StartFrom = "latest"
    """Where a partition begins if the group has no position in it. "always_latest": even if it has one."""
    prefetch: int = 2
    """How many packs are asked for before anybody waits for them."""
    confirm_timeout_ms: float = 60_000
    """A pack that is not confirmed within this time is given up and read again."""
    fail_on_data_loss: bool = True
    bad_messages: BadMessages = "fail"
    authority: Authority = field(default_factory=Authority)
    reader_groups: tuple[str, ...] = ()
    """Groups under which to look whether data has expired, where that is in doubt."""
    new_client_id: Callable[[], str] = lambda: "look"
    """Makes a new unique client id for each of these looks."""
    counts: ReadCounts = field(default_factory=ReadCounts)
    """What was read so far."""

    def start_of(self, key: PartitionKey) -> StartFrom:
        """Where this partition begins if it is connected for the first time."""
        is_later = self.start_from == "latest" and key.topic in self.later_topics
        return "earliest" if is_later else self.start_from

    def __post_init__(self) -> None:
        if whole_number(self.prefetch, "prefetch") < 0 or given_ms(self.confirm_timeout_ms, "confirm_timeout_ms") < 1:
            raise ConfigurationError(
                "prefetch must be 0 or more and confirm_timeout_ms 1 or more; "
                f"they are {self.prefetch} and {self.confirm_timeout_ms}"
            )
        check_bad_messages(self.bad_messages)
        if self.start_from not in get_args(StartFrom):
            names = "earliest, latest or always_latest"
            raise ConfigurationError(f"start_from must be {names}, not {self.start_from!r}")
