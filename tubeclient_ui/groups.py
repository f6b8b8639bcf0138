"""The views of groups: who reads, how far it is, and a move of positions, which shows its dry run first."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from tubeclient.errors import TubeError
from tubeclient.keys import PartitionKey
from tubeclient.names import group_name
from tubeclient_cli.facts.groups import check_offline, group_facts, group_rows, planned_moves
from tubeclient_cli.facts.position_moves import parse_offset_spec
from tubeclient_ui.access import ClusterAccess, DryRuns, LagHistory
from tubeclient_ui.cluster import Problem, page_of, silent_problems
from tubeclient_ui.queries import Query

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
    nothing = dict.fromkeys(("position", "endOffset", "messagesBehindAtMost"))
    without = [{"partition": key, **nothing} for key in sorted(known - positions, key=PartitionKey.parse)]
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

    def __init__(self, access: ClusterAccess, zone: ZoneInfo) -> None:
        self._access, self._zone = access, zone
        self._plans = DryRuns[_Plan]()

    def planned(self, query: Query) -> dict[str, Any]:
        """What would move, once a place is given. Raises TubeError."""
        if not (to := query.text("to")):
            return {"plan": None}
        name, force = group_name(query.text("name")), bool(query.text("force"))
        spec, admin = parse_offset_spec(to, "the place", self._zone), self._access.admin()
        if not force:
            check_offline(admin, name)
        topics = query.text("topic").replace(",", " ").split()
        plan = planned_moves(self._access.settings(), admin, name, topics, spec, self._zone.key)
        key = self._plans.add(_Plan(name, {move.partition: move.end for move in plan.moves}, force))
        return {"plan": plan, "key": key, "rows": [move.row() for move in plan.moves[:1000]]}

    def moved(self, query: Query) -> dict[str, Any]:
        """Do what a dry run showed, once. Raises TubeError."""
        plan = self._plans.take(query.text("plan"))
        admin = self._access.admin()
        if not plan.force:
            check_offline(admin, plan.group)
        admin.set_offsets(plan.group, plan.offsets)
        return {"group": plan.group}
