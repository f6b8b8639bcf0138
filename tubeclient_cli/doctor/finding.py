"""What a check finds, and what all findings together mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tubeclient_cli.common.terminal import ExitCode

__all__ = ["Finding", "good", "note", "problem", "verdict"]


class Finding(NamedTuple):
    """The result of one check."""

    check: str
    code: ExitCode
    """DONE if it is well, otherwise what a command ends with because of it."""
    text: str
    action: str = ""
    """How to mend it; for what is well, something to know."""

    @property
    def is_ok(self) -> bool:
        return self.code is ExitCode.DONE


def good(check: str, text: str) -> Finding:
    return Finding(check, ExitCode.DONE, text)


def note(check: str, text: str, action: str) -> Finding:
    """Nothing is wrong, but users should know."""
    return Finding(check, ExitCode.DONE, text, action)


def problem(check: str, text: str, action: str, code: ExitCode = ExitCode.FAILED) -> Finding:
    return Finding(check, code, text, action)


def verdict(findings: Iterable[Finding]) -> ExitCode:
    """3 if something cannot be reached, otherwise 2 for a setting to change, 1 for another problem, 0 without any."""
    return max((one.code for one in findings), default=ExitCode.DONE)
