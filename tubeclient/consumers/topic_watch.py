"""Which topics match a pattern: looked up now and then, with a topic dropped after two looks without it."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from tubeclient.admin import Admin
from tubeclient.errors import ConfigurationError, ConnectError, TransportError, TubeError
from tubeclient.names import Topics, read_topics, topic_pattern
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)


class TopicWatch:
    """The topics that `list_topics` finds, looked up again by `due` every `interval_ms`.

    A look that fails is a warning. `pattern_option` names the pattern in the log. For several threads; one looks at a
    time.
    """

    def __init__(
        self,
        list_topics: Callable[[], Sequence[str]],
        interval_ms: float,
        *,
        pattern_option: str = "subscribe_pattern",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.topics: tuple[str, ...] = ()
        """Those that are read, sorted."""
        self.later: set[str] = set()
        """Those that came after the first look."""
        self._list_topics = list_topics
        self.interval_ms = interval_ms
        self._option = pattern_option
        self._clock = clock
        self._missed: set[str] = set()
        self._next_refresh = 0.0
        self._begun = self._blind = False
        self._lock = threading.Lock()

    def refresh(self) -> tuple[str, ...]:
        """Look now; returns `topics`. Raises the look's error."""
        with self._lock:
            self._refresh()
            return self.topics

    def due(self) -> tuple[str, ...]:
        """Look if it is time to; returns `topics`."""
        if self._clock() >= self._next_refresh:
            with self._lock:
                if self._clock() >= self._next_refresh:
                    self._refresh_or_warn()
        return self.topics

    def _refresh_or_warn(self) -> None:
        try:
            self._refresh()
        except TubeError as error:
            if not self._blind:
                _log.warning("could not look for new topics; reading the known ones: %s", error)
            self._blind = True

    def _refresh(self) -> None:
        self._next_refresh = self._clock() + self.interval_ms / 1000
        found = self._list_topics()
        self._blind = False
        missed = set(self.topics).difference(found)
        self._missed, missed_before = missed, self._missed
        wanted = tuple(sorted({*found, *(missed - missed_before)}))
        come, gone = sorted(set(wanted).difference(self.topics)), sorted(set(self.topics).difference(wanted))
        if come or gone:
            _log.info("%s: new topics: %s; removed: %s", self._option, _names(come), _names(gone))
        if not wanted and (gone or not self._begun):
            _log.warning("no topic matches %s; waiting for one", self._option)
        if self._begun:
            self.later.update(come)
        self.topics, self._begun = wanted, True


def subscription(
    settings: ClientSettings, topics: Topics, pattern: str | re.Pattern[str] | None, interval_ms: float
) -> tuple[dict[str, frozenset[str]], TopicWatch | None]:
    """What a consumer reads: tags by topic, or the topics of a pattern. ConfigurationError for what cannot be, and
    unless one of the two is given."""
    if pattern is None:
        return read_topics(topics), None
    if topics != ():
        raise ConfigurationError("give topics (by name) or subscribe_pattern (a regular expression), not both")
    try:
        wanted = topic_pattern(pattern)
    except ValueError as error:
        raise ConfigurationError(f"subscribe_pattern {error}") from None
    return {}, TopicWatch(partial(matching_topics, settings, wanted), interval_ms)


def matching_topics(
    settings: ClientSettings,
    pattern: re.Pattern[str],
    *,
    pattern_option: str = "subscribe_pattern",
    port_option: str = "master_web_port",
    topics_option: str = "topics",
) -> list[str]:
    """The deployed topics whose whole name matches, sorted, by a master's web port. ConnectError, with the names of the
    options, if none answers."""
    try:
        names = Admin(settings).topic_names()
    except TransportError as error:
        raise ConnectError(
            f"{pattern_option} needs the list of topics from a master's web port: {error}. Check {port_option}, or "
            f"name the topics with {topics_option}",
            condition="MASTER_UNREACHABLE",
        ) from error
    return [name for name in names if pattern.fullmatch(name) is not None]


def _names(topics: Sequence[str]) -> str:
    return ", ".join(topics) or "none"
