"""Visit tokens: numbers that the master gives its clients, and that brokers check.

The master renews them. Brokers get a new token one renewal before clients do, and keep the last ones (sources:
SimpleVisitTokenManager, SimpleCertificateBrokerHandler). TubeMQ's brokers do not check for 2 min after their start,
because they may not have a token yet; brokers here always have one.
"""

from __future__ import annotations

from collections import deque

__all__ = ["VisitTokens"]

RENEWAL_MS = 240_000
_REMEMBERED = 6


class VisitTokens:
    """The tokens of one cluster; they are times in ms."""

    def __init__(self, now_ms: int, renewal_ms: int = RENEWAL_MS) -> None:
        self._renewal_ms = renewal_ms
        self._known: deque[int] = deque(maxlen=_REMEMBERED)
        self.restart(now_ms)

    @property
    def for_clients(self) -> int:
        """The token for clients now."""
        return self._valid

    def restart(self, now_ms: int) -> None:
        """Start a new master with a first token for all; brokers keep the former master's tokens."""
        self._valid = self._fresh = now_ms
        self._known.append(now_ms)

    def tick(self, now_ms: int) -> None:
        """Renew the token when due."""
        if now_ms - self._fresh >= self._renewal_ms:
            self._valid, self._fresh = self._fresh, now_ms
            self._known.append(now_ms)

    def accepts(self, token: int) -> bool:
        """Whether a broker accepts the token."""
        return token in self._known
