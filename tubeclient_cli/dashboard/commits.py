"""What one commit changed, from the group's progress before and after it. Pure."""

from __future__ import annotations

from collections import Counter
from typing import Final

from offsets_store import GroupProgress, PartitionProgress
from tubeclient.keys import INDEX_ENTRY_BYTES, StoreKey
from tubeclient_cli.dashboard.facts import CommitFacts

__all__ = ["commit_facts"]

_SHOWN_CHANGES: Final = 3


def commit_facts(version: int, at_ms: int, before: GroupProgress | None, after: GroupProgress) -> CommitFacts:
    """Compare two states. Without one before, nothing counts as moved: how far it was read then is not known.

    The partitions of a store share its index, so a store counts by its partition that moved furthest.
    """
    was = {} if before is None else {row.partition: row for row in before.partitions}
    forward: dict[StoreKey, int] = {}
    back: dict[StoreKey, int] = {}
    moved = moved_back = entered = taken_over = 0
    changes: Counter[tuple[int | None, int | None]] = Counter()
    reasons: dict[tuple[int | None, int | None], str | None] = {}
    for row in after.partitions:
        old = was.pop(row.partition, None)
        if old is None:
            entered += 1
            continue
        rows = (row.next_offset - old.next_offset) // INDEX_ENTRY_BYTES
        store = row.partition.store
        if rows > 0:
            moved += 1
            forward[store] = max(rows, forward.get(store, 0))
            taken_over += _is_taken_over(row)
        elif rows < 0:
            moved_back += 1
            back[store] = max(-rows, back.get(store, 0))
        if row.node_id != old.node_id:
            changes[old.node_id, row.node_id] += 1
            reasons.setdefault((old.node_id, row.node_id), row.reason)
    most = changes.most_common(_SHOWN_CHANGES)
    return CommitFacts(
        version=version,
        at_ms=at_ms,
        sequence=after.sequence,
        run_epoch=after.run_epoch,
        client_version=after.client_version,
        source_count=after.source_count,
        rows_behind=after.rows_behind,
        rows_read=sum(forward.values()),
        partitions_moved=moved,
        rows_back=sum(back.values()),
        partitions_back=moved_back,
        changed_nodes=changes.total(),
        changes=tuple((old_node, new_node, count) for (old_node, new_node), count in most),
        reason=reasons[most[0][0]] if most else None,
        taken_over=taken_over,
        entered=0 if before is None else entered,
        left=len(was),
        new_run=before is not None and before.run_epoch != after.run_epoch,
    )


def _is_taken_over(row: PartitionProgress) -> bool:
    return len({part.node_id for part in row.readers}) > 1
