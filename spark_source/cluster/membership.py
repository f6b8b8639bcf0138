"""A group whose topics are those that match a pattern, so that topics come and go while it is held."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from tubeclient.errors import ClientClosed, TopicNotDeployed, TubeError
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["NOTHING", "ChangingMembership", "Membership", "PatternMembership"]


_log = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5

NOTHING: Final = ClusterView.of([], [])
"""What to read while no topic matches."""


class Membership(Protocol):
    """A group's nodes; see tubeclient.consumers.group.GroupMembership and PatternMembership."""

    def join(self, patience_ms: float) -> ClusterView: ...
    def view(self) -> ClusterView: ...
    def refreshed_view(self, timeout_ms: float) -> ClusterView: ...
    @property
    def visit_token(self) -> int | None: ...
    def report(self, held: Mapping[int, Sequence[PartitionKey]]) -> None: ...
    def close(self) -> None: ...


class ChangingMembership(Membership, Protocol):
    """A membership that can change its topics; see tubeclient.consumers.group.GroupMembership."""

    def change_topics(self, topics: Sequence[str]) -> None: ...


class PatternMembership:
    """Joins the group once a topic matches, and changes topics when the matches change; see `membership.Membership`.

    `look` lists the matching topics, and `make` makes the membership for some. A master cannot have a group without
    topics, so while none matches nothing is registered and the view is empty. `view` looks again every `interval_ms`; a
    failed look is a warning. A topic is dropped after two looks in a row without it.
    """

    def __init__(
        self,
        look: Callable[[], Sequence[str]],
        make: Callable[[Sequence[str]], ChangingMembership],
        interval_ms: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._look = look
        self._make = make
        self._interval_ms = interval_ms
        self._clock = clock
        self._sleep = sleep
        self._patience_ms: float = 0
        self._inner: ChangingMembership | None = None
        self._topics: list[str] = []
        self._missed: set[str] = set()
        self._held: Mapping[int, Sequence[PartitionKey]] = {}
        self._next_look = 0.0
        self._blind = False
        self._closed = False

    def join(self, patience_ms: float) -> ClusterView:
        """Look for topics and join for those that match, as GroupMembership.join does. Raises the look's error."""
        self._patience_ms = patience_ms
        self._next_look = self._clock() + self._interval_ms / 1000
        self._change_to(sorted(self._look()))
        if self._inner is None:
            _log.warning("no topic matches subscribePattern; waiting for one")
        return self.view()

    def view(self) -> ClusterView:
        """The topics' layout. Raises the error that ended the membership, if it has ended."""
        self._check_open()
        if self._clock() >= self._next_look:
            self._next_look = self._clock() + self._interval_ms / 1000
            self._look_again()
        return NOTHING if self._inner is None else self._inner.view()

    def refreshed_view(self, timeout_ms: float) -> ClusterView:
        """Look for topics now, and get their layout from the master.

        A failed look is repeated; after `timeout_ms` its error is raised, or the membership's.
        """
        self._check_open()
        deadline = self._clock() + timeout_ms / 1000
        while True:
            try:
                found = self._look()
                break
            except TubeError as error:
                if not error.retriable or self._clock() >= deadline:
                    raise
            self._sleep(_RETRY_SECONDS)
        self._take(found)
        left_ms = max(0.0, deadline - self._clock()) * 1000
        return NOTHING if self._inner is None else self._inner.refreshed_view(left_ms)

    @property
    def visit_token(self) -> int | None:
        """The master's newest visit token for brokers."""
        return None if self._inner is None else self._inner.visit_token

    def report(self, held: Mapping[int, Sequence[PartitionKey]]) -> None:
        """Report each node's partitions to the master, once there is a group."""
        self._held = held
        if self._inner is not None:
            self._inner.report(held)

    def close(self) -> None:
        """Release the nodes."""
        self._closed = True
        self._leave()

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("this membership is closed; make a new one")

    def _look_again(self) -> None:
        try:
            found = self._look()
        except TubeError as error:
            if not self._blind:
                _log.warning("could not look for new topics; reading the known ones: %s", error)
            self._blind = True
            return
        self._take(found)

    def _take(self, found: Sequence[str]) -> None:
        """Change to the topics of a look."""
        self._blind = False
        missed = set(self._topics).difference(found)
        self._missed, missed_before = missed, self._missed
        wanted = sorted({*found, *(missed - missed_before)})
        if wanted != self._topics:
            self._change_to(wanted)

    def _change_to(self, topics: list[str]) -> None:
        come, gone = sorted(set(topics) - set(self._topics)), sorted(set(self._topics) - set(topics))
        if come or gone:
            _log.info("subscribePattern: new topics: %s; removed: %s", _names(come), _names(gone))
        if not topics:
            self._leave()
        elif self._inner is not None:
            self._inner.change_topics(topics)
        elif not self._join(topics):
            return
        self._topics = topics

    def _join(self, topics: list[str]) -> bool:
        """Whether it worked: a topic deleted at this moment must not end the query."""
        # Store it first: a failed join must also release its nodes.
        self._inner = self._make(topics)
        try:
            self._inner.join(self._patience_ms)
        except TopicNotDeployed as error:
            _log.warning("a topic was removed during the join, looking again: %s", error)
            self._leave()
            return False
        self._inner.report(self._held)
        return True

    def _leave(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()


def _names(topics: Sequence[str]) -> str:
    return ", ".join(topics) or "none"
