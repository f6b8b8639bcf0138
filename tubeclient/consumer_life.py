"""A consumer's start and end: it runs once, and ends even if a caller is interrupted or forgets it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Protocol

from tubeclient.errors import ClientClosed, ConfigurationError
from tubeclient.net.forgotten import Watch, alive, weakly
from tubeclient.running_consumer import Handler, Running

__all__ = ["ConsumerLife"]

_log = logging.getLogger(__name__)


class Closable(Protocol):
    def close(self) -> None: ...


class ConsumerLife:
    """Only the consumer refers to it. `closed`: whether `end` was called."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running: Running | None = None
        self.closed = False
        self._joining: Running | None = None
        self._ending = False
        """Whether `end` was called: a `begin` that is not over yet joins no group any more."""
        self._interrupted = False
        self._watch: Watch | None = None

    def begin(self, consumer: Closable, what: str, build: Callable[[], Running], patience_ms: float) -> Running:
        """Join the group with the result of `build`, unless already done; `what` names the consumer in the log."""
        with self.lock:
            if self.closed:
                raise _closed()
            if self.running is not None:
                return self.running
            running = self._joining = build()
            try:
                if self._ending:
                    raise _closed()
                running.membership.join(patience_ms)
                if alive(what):
                    _log.warning("this process already has %s; the two share its partitions", what)
                self._watch = Watch(consumer, what, partial(_close, weakly(consumer.close), running))
                self._watch.begin()
                self.running = running
            except BaseException:
                if self._watch is not None:
                    self._watch.end()
                running.close()
                raise
            finally:
                self._joining = None
            return running

    def end(self, wait_ms: float, handle: Handler) -> None:
        """Release everything, once. May be called again after an interrupt. Ends a `begin` that waits for its place."""
        self._ending = True
        joining = self._joining  # if there is none yet, `begin` looks at `_ending` afterwards
        if joining is not None:
            joining.membership.close()
        with self.lock:
            if self.closed and not self._interrupted:
                return
            self.closed, self._interrupted = True, False
        if self.running is not None:
            try:
                self.running.give_back(wait_ms, handle)
            except BaseException:
                self._interrupted = True
                raise
        if self._watch is not None:
            self._watch.end()

    def live(self) -> Running:
        """The running parts; ClientClosed after the close, ConfigurationError before the start."""
        if self.closed:
            raise _closed()
        return self.started()

    def started(self) -> Running:
        """The running parts, also of a closed consumer: callbacks may confirm earlier packs."""
        if self.running is None:
            raise ConfigurationError("this consumer was not started; call start(), or use it in a with statement")
        return self.running


def _closed() -> ClientClosed:
    return ClientClosed("this consumer is closed")


def _close(close: Callable[[], None], running: Running) -> None:
    """The end of a consumer that nobody closed: by its own `close`, if it is still there."""
    close()
    running.give_back(0, _drop)


def _drop(running: Running, event: object) -> None:
    """The handler for a consumer that was garbage-collected."""
