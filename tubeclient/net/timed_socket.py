"""A socket for peers that may be slow."""

from __future__ import annotations

import socket
import time
from typing import Any


class TimedSocket(socket.socket):
    """A socket whose receives all end by one moment, however little comes at a time. TimeoutError after it."""

    deadline = 0.0
    """By time.monotonic(), seconds."""

    def recv_into(self, *arguments: Any) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("what was awaited was not complete in time")
        self.settimeout(left)
        return super().recv_into(*arguments)
