"""Visit tokens: numbers that the master gives its clients, by which brokers know them for the master's.

The master renews them; a token is first told to the brokers and one renewal later to the clients, and brokers keep the
last ones (sources: SimpleVisitTokenManager, SimpleCertificateBrokerHandler). Brokers of TubeMQ do not check for 2 min
after their start, as they may not have heard of a token yet; here they always have.
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
        """What a client is given now."""
        return self._valid

    def restart(self, now_ms: int) -> None:
        """A master begins, with a first token for all; brokers keep those of the master before."""
        self._valid = self._fresh = now_ms
        self._known.append(now_ms)

    def tick(self, now_ms: int) -> None:
        """Renew, if it is time."""
        if now_ms - self._fresh >= self._renewal_ms:
            self._valid, self._fresh = self._fresh, now_ms
            self._known.append(now_ms)

    def accepts(self, token: int) -> bool:
        """Whether a broker takes it."""
        return token in self._known
