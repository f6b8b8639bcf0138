"""Which partitions a member gives up because it is slow, and which it takes over because another one is.

A group that balances itself has no coordinator. Its members share three things: the master's list of members with the
partitions that each reports, the group's positions at the brokers, and that a broker gives a partition to one client at
a time. So only the owner of a partition gives it up, and whoever takes it must get it from the broker: members may see
different things at different times, and yet no partition has two readers. What they disagree on costs time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tubeclient.keys import PartitionKey


class Progress(NamedTuple):
    """Of a partition at its broker, in bytes of the index."""

    committed: int
    end: int


class Observed(NamedTuple):
    """What a member sees of its group."""

    members: Sequence[str]
    """Their client ids, sorted."""
    owners: Mapping[PartitionKey, str]
    """The client id of whoever reports a partition."""
    progress: Mapping[PartitionKey, Progress] | None = None
    """None if the brokers were not asked, or did not answer."""


class Relief:
    """What the member `me` is to own, from look to look. For one thread; `now_ms` is any monotonic clock.

    It begins with its share, and does so again when members or partitions change. A partition is behind if over
    `window_ms` its reader confirmed no more than came, and more than that is unread. A member that has one is slow. It
    gives up half of its partitions, those with least unread first, if another member keeps up with all of its own; and
    all of them if none of its positions moved. A member that keeps up takes its part of what is free. What is free for
    `free_ms` is its share's owner's again.
    """

    def __init__(self, me: str, *, window_ms: float, free_ms: float) -> None:
        self._me = me
        self._window_ms = window_ms
        self._free_ms = free_ms
        self._group: tuple[object, object] | None = None
        self._begin(())

    def _begin(self, share: Collection[PartitionKey]) -> None:
        self._wanted = set(share)
        self._owned_once: set[PartitionKey] = set()
        """Those that had an owner since the beginning."""
        self._since: dict[PartitionKey, float] = {}
        """When the look was that first had no owner, or for a wanted one another owner."""
        self._history: list[tuple[float, Observed]] = []

    def wanted(
        self,
        partitions: Collection[PartitionKey],
        share: Collection[PartitionKey],
        seen: Observed,
        now_ms: float,
        *,
        is_polled: bool,
    ) -> set[PartitionKey]:
        """What to own after this look; `share` is what the strategy gives to this member. `is_polled`: the application
        asked for messages within the window."""
        group = tuple(seen.members), frozenset(partitions)
        if group != self._group:
            self._group = group
            self._begin(share)
        self._owned_once |= seen.owners.keys()
        free = [key for key in sorted(partitions) if key not in seen.owners]
        lost = [key for key in self._wanted if seen.owners.get(key, self._me) != self._me]
        self._since = {key: self._since.get(key, now_ms) for key in (*free, *lost)}
        overdue = {key for key, since in self._since.items() if now_ms - since >= self._free_ms}
        self._wanted -= overdue.intersection(lost)
        self._wanted |= overdue.intersection(free, share)
        before = self._before(seen, now_ms)
        if before is not None and seen.progress is not None:
            moves = _Moves(seen, before)
            keepers = [member for member in seen.members if moves.keeps_up(member)]
            if self._me in keepers and is_polled:
                place, ready = keepers.index(self._me), [key for key in free if key in self._owned_once]
                late = {key for key in ready if now_ms - self._since[key] >= self._free_ms / 2}
                self._wanted.update(ready[place :: len(keepers)], late)
            elif keepers and self._me not in keepers and (given := moves.to_give(self._me)):
                self._wanted.difference_update(given)
                self._history.clear()  # how it does with the rest shows in the next window
        return set(self._wanted)

    def _before(self, seen: Observed, now_ms: float) -> Observed | None:
        """The newest look with progress that is a window old; keeps this one."""
        if seen.progress is not None:
            self._history.append((now_ms, seen))
        old = [entry for entry in self._history if now_ms - entry[0] >= self._window_ms]
        self._history = [*old[-1:], *(entry for entry in self._history if now_ms - entry[0] < self._window_ms)]
        return old[-1][1] if old else None


class _Moves:
    """What became of each partition between two looks."""

    def __init__(self, now: Observed, before: Observed) -> None:
        assert now.progress is not None
        assert before.progress is not None
        self._unread: dict[PartitionKey, int] = {}
        self._came: dict[PartitionKey, int] = {}
        self._confirmed: dict[PartitionKey, int] = {}
        self._of: dict[str, list[PartitionKey]] = {}
        self._throughout = {key for key, owner in now.owners.items() if before.owners.get(key) == owner}
        for key, (committed, end) in sorted(now.progress.items()):
            if key in before.progress and (owner := now.owners.get(key)) is not None:
                self._unread[key] = end - committed
                self._came[key] = end - before.progress[key].end
                self._confirmed[key] = committed - before.progress[key].committed
                self._of.setdefault(owner, []).append(key)

    def keeps_up(self, member: str) -> bool:
        return all(self._unread[key] <= self._came[key] for key in self._of.get(member, ()))

    def to_give(self, member: str) -> list[PartitionKey]:
        """What a member gives up; nothing if it is not slow, by those that it has had all the time."""
        mine = sorted(self._of.get(member, ()), key=self._unread.__getitem__)
        judged = [key for key in mine if key in self._throughout]
        if not any(self._unread[key] > self._came[key] >= self._confirmed[key] for key in judged):
            return []
        is_stuck = not any(self._confirmed[key] for key in judged)
        return mine if is_stuck else mine[: len(mine) // 2]
