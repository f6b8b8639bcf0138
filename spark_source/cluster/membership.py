"""Protocols of a group's nodes, held at the master; tests implement them without a master."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["ChangingMembership", "Membership"]


class Membership(Protocol):
    """A group's nodes; see tubeclient.group.GroupMembership and PatternMembership."""

    def join(self, patience_ms: float) -> ClusterView: ...
    def view(self) -> ClusterView: ...
    def refreshed_view(self, timeout_ms: float) -> ClusterView: ...
    @property
    def visit_token(self) -> int | None: ...
    def report(self, held: Mapping[int, Sequence[PartitionKey]]) -> None: ...
    def close(self) -> None: ...


class ChangingMembership(Membership, Protocol):
    """A membership that can change its topics; see tubeclient.group.GroupMembership."""

    def change_topics(self, topics: Sequence[str]) -> None: ...
