"""The views of groups: who reads, how far it is, and a move of positions, which shows its dry run first."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from datetime import tzinfo
from typing import Any, NamedTuple

from tubeclient.errors import TubeError
from tubeclient.keys import PartitionKey
from tubeclient.names import group_name
from tubeclient_cli.facts.groups import check_offline, group_facts, group_rows, planned_moves
from tubeclient_cli.facts.position_moves import Moves, parse_offset_spec
from tubeclient_ui.access import ClusterAccess, LagHistory
from tubeclient_ui.cluster import Problem, page_of, silent_problems
from tubeclient_ui.dry_runs import DryRuns

__all__ = ["GroupMoves", "group_view", "groups_view"]


def groups_view(access: ClusterAccess, q: str, page: int) -> dict[str, Any]:
    """The groups that have `q` in their names. Raises TubeError."""
    silent: dict[int, TubeError] = {}
    rows = [row for row in group_rows(access.admin(), silent) if q.lower() in row["group"].lower()]
    return {"groups": page_of(rows, page), "problems": silent_problems(access, silent)}


def group_view(access: ClusterAccess, history: LagHistory, name: str, page: int) -> dict[str, Any]:
    """A group, each partition with the node that owns it, and its lag since somebody watches. Raises TubeError."""
    silent: dict[int, TubeError] = {}
    found = group_facts(access.admin(), group_name(name), silent)
    owners = {
        partition: client["clientId"] if client["nodeId"] is None else client["nodeId"]
        for client in found["clients"]
        for partition in client["partitions"]
    }
    positions = {row["partition"] for row in found["partitions"]}
    known = owners.keys() | set(found["unowned"])
    without = [{"partition": key} for key in sorted(known - positions, key=PartitionKey.parse)]
    problems = silent_problems(access, silent)
    if found["beyondEnd"]:
        command = f"tubeclient groups move {shlex.quote(name)} --to latest --dry-run {access.command}"
        where = ", ".join(found["beyondEnd"][:5])
        problems.append(Problem("Positions are beyond the last message: {where}", {"where": where}, "", command))
    behind = None if silent else found["messagesBehindAtMost"]
    return {
        "group": found,
        "owners": owners,
        "partitions": page_of([*found["partitions"], *without], page),
        "lag": history.after(found["group"], time.time(), behind),
        "problems": problems,
    }


class _Plan(NamedTuple):
    group: str
    offsets: Mapping[PartitionKey, int]
    force: bool


class GroupMoves:
    """Dry runs of moves, and their doing: a move does what its dry run showed, once. Thread-safe."""

    def __init__(self, access: ClusterAccess, zone: tzinfo, zone_name: str) -> None:
        self._access, self._zone, self._zone_name = access, zone, zone_name
        self._plans = DryRuns[_Plan]()

    def plan(self, group: str, to: str, topics: list[str], force: bool) -> tuple[str, Moves]:
        """A number for the move, and what would move. Raises TubeError."""
        name, spec = group_name(group), parse_offset_spec(to, "the place", self._zone)
        admin = self._access.admin()
        if not force:
            check_offline(admin, name)
        moves = planned_moves(self._access.settings(), admin, name, topics, spec, self._zone_name)
        return self._plans.add(_Plan(name, {move.partition: move.end for move in moves.moves}, force)), moves

    def move(self, key: str) -> str:
        """Do what a dry run showed, and return the group. Raises TubeError."""
        plan = self._plans.take(key)
        admin = self._access.admin()
        if not plan.force:
            check_offline(admin, plan.group)
        admin.set_offsets(plan.group, plan.offsets)
        return plan.group
