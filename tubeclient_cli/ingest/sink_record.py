"""What a commit of the ingest job says about itself, in its `userMetadata`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_source.offsets.offsets import Offsets

__all__ = ["SinkRecord"]

_FIELD = "tubeclient"


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One batch of a group, and where the group's rows end with it."""

    consumer_group: str
    query_id: str
    """The identity of Spark's checkpoint."""
    batch_id: int
    ends: Offsets
    """Everything before these offsets is in the table, from all topics that the group has ever written to it."""
    sequence: int = 0
    """The group's number of the commit, which goes on over checkpoints; 0 where an earlier release wrote it, which
    counted for each checkpoint anew."""
    based_on: int | None = None
    """The table's version that the job had looked at before; None for one that was to be made."""
    masters: tuple[str, ...] = ()
    """ "host:port" of the masters of the cluster that the rows come from; () where an earlier release wrote it."""

    @property
    def transaction_id(self) -> str:
        """The `txnAppId` of the commit, whose `txnVersion` is `sequence`."""
        return self.transaction_id_of(self.consumer_group)

    @staticmethod
    def transaction_id_of(consumer_group: str) -> str:
        """The one identity of a group's commits: of two runs that write at once, whatever their checkpoints, Delta lets
        only one through."""
        return f"tubeclient:{consumer_group}"

    def to_json(self) -> str:
        """The commit's userMetadata."""
        return json.dumps(
            {
                _FIELD: {
                    "consumerGroup": self.consumer_group,
                    "queryId": self.query_id,
                    "batchId": self.batch_id,
                    "sequence": self.sequence,
                    "basedOn": self.based_on,
                    "masterServers": self.masters,
                    "endOffsets": self.ends.to_dict(),
                }
            }
        )

    @classmethod
    def parse(cls, text: str | None) -> SinkRecord | None:
        """Read a commit's userMetadata; None if it is not of this job's making."""
        try:
            document = json.loads(text or "")
        except ValueError:
            return None
        record = document.get(_FIELD) if isinstance(document, Mapping) else None
        if not isinstance(record, Mapping):
            return None
        return cls(
            str(record["consumerGroup"]),
            str(record["queryId"]),
            int(record["batchId"]),
            Offsets.from_dict(record["endOffsets"]),
            int(record.get("sequence", 0)),
            record.get("basedOn"),
            tuple(map(str, record.get("masterServers", ()))),
        )
