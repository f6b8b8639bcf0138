"""Refusals of the state machines, and name checks that master and broker share."""

from __future__ import annotations

from embedded_tubemq.common.codes import Code

__all__ = ["MAX_CLIENT_CHARS", "MAX_GROUP_CHARS", "MAX_HOST_CHARS", "Refusal", "StandbyRefusal", "checked_name"]

# Lengths in characters; source: section "sizes" of TubeMQ's TBaseConstants (client, group, host).
MAX_CLIENT_CHARS = 1024
MAX_GROUP_CHARS = 1024
MAX_HOST_CHARS = 256


class Refusal(Exception):
    """The call is refused with `code`; the answer has `text`. `wait_ms` goes with 452."""

    def __init__(self, code: int, text: str, *, wait_ms: int = 0) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.wait_ms = wait_ms


class StandbyRefusal(Exception):
    """This master is a standby: the RPC layer answers with StandbyException instead of a code."""


def checked_name(name: str, what: str, most: int) -> str:
    """Return `name` without surrounding blanks. A blank name, or one of more than `most` characters, is a 400."""
    name = name.strip()
    if not name:
        raise Refusal(Code.BAD_REQUEST, f"the request names no {what}")
    if len(name) > most:
        raise Refusal(Code.BAD_REQUEST, f"the {what} is {len(name)} characters long; {most} are allowed")
    return name
