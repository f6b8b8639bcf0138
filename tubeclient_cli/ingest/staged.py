"""The folders in which bad records wait until their batch is in the target. Pure.

A folder is named after group and target, the group's number of the commit that it is for, and something unique. So a
run can tell which folders nobody will publish: those of its own group and target, up to the newest commit's number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

__all__ = ["STAGED", "StagedBad", "folder_name", "numbers", "orphans", "owner_mark"]

STAGED: Final = "_staged"
"""The folder in the dead-letter table's; Delta and VACUUM ignore names that begin with an underscore."""

_MARK_LENGTH: Final = 32


@dataclass(frozen=True, slots=True)
class StagedBad:
    """What a commit to the target says of bad records."""

    table: str
    """The dead-letter table of the run, or of the last run that had one: path or URI."""
    folder: str | None = None
    """The staged folder of the batch's bad records; None if it has none."""
    count: int = 0
    retried: bool = False
    """Whether the folder has the ids of records that the commit took from the table into the target. Otherwise it has
    the batch's bad records, which are not in the table yet."""
    earlier_tables: tuple[str, ...] = ()
    """The group's other dead-letter tables, newest first: a RESTORE may undo batches whose bad records are there."""


def owner_mark(consumer_group: str, target: str) -> str:
    """The mark of a group's folders for one target: its Delta table id, or its path as long as there is no table."""
    return hashlib.sha256(f"{consumer_group}\0{target}".encode()).hexdigest()[:_MARK_LENGTH]


def folder_name(mark: str, sequence: int, unique: str) -> str:
    """The name of a folder for the group's commit number `sequence`."""
    return f"{mark}-{sequence}-{unique}"


def numbers(names: Iterable[str], marks: Collection[str]) -> dict[str, int]:
    """The folders with one of `marks`, and the number of the commit that each is for."""
    found = {}
    for name in names:
        mark, _, rest = name.partition("-")
        sequence = rest.partition("-")[0]
        if mark in marks and sequence.isdecimal():
            found[name] = int(sequence)
    return found


def orphans(names: Iterable[str], marks: Collection[str], newest: int) -> list[str]:
    """The folders with one of `marks` that are for a commit up to number `newest`.

    Once the newest commit's folder is published nobody needs them: a run that still writes to one cannot commit to the
    target any more, because its number is taken.
    """
    return [name for name, sequence in numbers(names, marks).items() if sequence <= newest]
