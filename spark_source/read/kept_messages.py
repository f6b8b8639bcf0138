"""Counts the bad messages that a task gave as rows, for one line in its log."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["KeptMessages"]


class KeptMessages:
    """Counts in batches with the column `badReason`."""

    def __init__(self) -> None:
        self.count = 0
        self.first = ""
        """The first one, as text."""

    def note(self, batch: pa.RecordBatch) -> None:
        """Count those of a batch."""
        reasons = batch.column("badReason")
        if reasons.null_count == len(reasons):
            return
        if not self.count:
            row = pc.index(pc.is_valid(reasons), True).as_py()
            partition, offset, number, reason = (
                batch.column(name)[row].as_py() for name in ("partitionKey", "offset", "messageId", "badReason")
            )
            at = "" if offset is None else f" at offset {offset}"
            self.first = f"partition {partition}, the message with id {number}{at}: {reason}"
        self.count += len(reasons) - reasons.null_count
