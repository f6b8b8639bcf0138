"""What dry runs showed: a change does that, once."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from typing import Final, Generic, TypeVar

from tubeclient.errors import ConfigurationError

__all__ = ["DryRuns"]

T = TypeVar("T")

_MOST: Final = 16


class DryRuns(Generic[T]):
    """The newest ones that are not done, each by a key that cannot be guessed. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: OrderedDict[str, T] = OrderedDict()

    def add(self, plan: T) -> str:
        """Keep what a dry run shows. Returns its key."""
        key = secrets.token_urlsafe(8)
        with self._lock:
            self._plans[key] = plan
            if len(self._plans) > _MOST:
                self._plans.popitem(last=False)
        return key

    def get(self, key: str) -> T | None:
        """What a dry run showed; None if it is done or forgotten."""
        return self._plans.get(key)

    def take(self, key: str) -> T:
        """The same, for whoever does it now. ConfigurationError: it is done or forgotten."""
        with self._lock:
            plan = self._plans.pop(key, None)
        if plan is None:
            raise ConfigurationError("this dry run is done or forgotten; make another one")
        return plan
