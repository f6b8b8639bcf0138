"""The ingest job's record in the `userMetadata` of its commits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from spark_source.offsets.offsets import Offsets

__all__ = ["SinkRecord"]

_FIELD = "tubeclient"


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One batch of a group, and where the group's rows end after it."""

    consumer_group: str
    query_id: str
    """The id of Spark's checkpoint."""
    batch_id: int
    ends: Offsets
    """The table has everything before these offsets, from all topics that the group has ever written to it."""
    sequence: int = 0
    """The group's number of the commit, across checkpoints; 0 in commits of an earlier release, which counted per
    checkpoint."""
    based_on: int | None = None
    """The table's version that the job had read before; None if there was no table."""
    masters: tuple[str, ...] = ()
    """ "host:port" of the masters of the rows' cluster; () in commits of an earlier release."""

    @property
    def transaction_id(self) -> str:
        """The commit's `txnAppId`; its `txnVersion` is `sequence`."""
        return self.transaction_id_of(self.consumer_group)

    @staticmethod
    def transaction_id_of(consumer_group: str) -> str:
        """The one transaction id of a group's commits. Of two runs that write at once, whatever their checkpoints,
        Delta accepts only one."""
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
        """Parse a commit's userMetadata; None if this job did not write it."""
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
