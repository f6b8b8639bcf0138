"""Reads the groups of an offsets table, and what their commits changed, a few commits at each look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import pairwise

from offsets_store import GroupKey, GroupProgress, OffsetsTable, SchemaMismatch, VersionGone
from offsets_store.health import GroupPast
from offsets_store.history import TableCommit
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.offsets_tables import NO_TABLE, kept_group, progress_in
from tubeclient_cli.dashboard.commits import commit_facts
from tubeclient_cli.dashboard.facts import CommitFacts, GroupFacts
from tubeclient_cli.dashboard.looks import Incomplete

__all__ = ["TableLook"]


class TableLook:
    """One look is one call. Each first reads the groups as they are now, then commits that it does not know yet, newest
    first, for `history_s`; the next look reads on. `most_commits` is how far back it goes for each group. For one
    thread at a time."""

    def __init__(
        self,
        table: OffsetsTable,
        groups: Iterable[str] = (),
        *,
        most_commits: int = 200,
        history_s: float = 1.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table = table
        self._wanted = sorted(set(groups))
        self._most_commits = most_commits
        self._history_s = history_s
        self._clock_s = clock_s
        self._known: dict[GroupKey, dict[int, CommitFacts | None]] = {}
        """By version; None for a commit that did not change this topic set."""
        self._pasts: dict[str, tuple[list[GroupProgress], GroupPast | None]] = {}
        """By group: its progress, and the past that goes with it."""

    def __call__(self) -> tuple[GroupFacts, ...]:
        """Raises OffsetsTableError, and Incomplete if there is no table, or groups of it have names that no group can
        have, or rows of a newer release."""
        there = self._table.groups()
        if not there and not self._table.exists():
            raise Incomplete((), NO_TABLE)
        newest: list[tuple[GroupProgress, GroupPast | None]] = []
        wrong: list[str] = []
        for group in self._wanted or there:
            if group in there:
                try:
                    newest += self._newest(group)
                except (ConfigurationError, SchemaMismatch, ValueError) as error:
                    wrong.append(f"group {group!r} is left out: {error}")
        # The log is one for all groups, and most of its commits may be of others.
        log = self._table.commits((self._most_commits + 1) * max(1, len(there)))
        stop = self._clock_s() + self._history_s
        found = tuple(self._facts(progress, past, log, stop) for progress, past in newest)
        if wrong:
            raise Incomplete(found, "; ".join(wrong))
        return found

    def _newest(self, group: str) -> list[tuple[GroupProgress, GroupPast | None]]:
        newest = progress_in(self._table, kept_group(group))
        known = self._pasts.get(group)
        if known is None or known[0] != newest:
            # It reads some versions of the table, which without a new commit are the same.
            known = self._pasts[group] = newest, self._table.past(group)
        past = known[1]
        return [(progress, past if past is not None and past.group == progress.group else None) for progress in newest]

    def _facts(
        self, progress: GroupProgress, past: GroupPast | None, log: Iterable[TableCommit], stop: float
    ) -> GroupFacts:
        key = progress.group
        known = self._known.setdefault(key, {})
        own = [commit for commit in log if commit.group in (None, key.consumer_group)][: self._most_commits + 1]
        states: dict[int, GroupProgress | None] = {}
        found: list[CommitFacts] = []
        for after, before in pairwise(own):
            if after.version not in known:
                if self._clock_s() > stop:
                    return GroupFacts(progress, tuple(found), past, reads_on=True)
                try:
                    for commit in (after, before):
                        if commit.version not in states:
                            states[commit.version] = self._table.at_version(key, commit.version)
                except VersionGone:
                    break
                new, old = states.pop(after.version), states[before.version]
                changed = new is not None and (old is None or old.sequence != new.sequence)
                known[after.version] = (
                    commit_facts(after.version, round(after.committed_at.timestamp() * 1000), old, new)
                    if changed and new is not None
                    else None
                )
            facts = known[after.version]
            if facts is not None:
                found.append(facts)
        kept = {commit.version for commit in own}
        for version in known.keys() - kept:
            del known[version]
        return GroupFacts(progress, tuple(found), past)
