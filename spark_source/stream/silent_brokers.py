"""Log lines about brokers that do not answer: once when they fall silent, and when they are back."""

from __future__ import annotations

import logging

from spark_source.stream.snapshot import Snapshot
from tubeclient.keys import PartitionKey

__all__ = ["SilentBrokers", "some_of"]

_log = logging.getLogger(__name__)

_NAMED = 3


class SilentBrokers:
    """Remembers which brokers were reported."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def tell(self, snapshot: Snapshot) -> None:
        """Warn of each newly silent broker, with its partitions."""
        for broker_id in sorted(self._told - snapshot.silent.keys()):
            self._told.discard(broker_id)
            _log.info("broker %d answers again", broker_id)
        for broker_id in sorted(snapshot.silent.keys() - self._told):
            self._told.add(broker_id)
            waiting = snapshot.untold_of(broker_id)
            _log.warning(
                "broker %s does not answer for now, and %s wait for it: they keep their positions or starting offsets; "
                "other brokers are read on. The reason: %s",
                snapshot.view.brokers[broker_id],
                some_of(waiting),
                snapshot.silent[broker_id],
            )


def some_of(partitions: list[PartitionKey]) -> str:
    """The number of partitions, and the first of them."""
    named = ", ".join(map(str, partitions[:_NAMED]))
    more = f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else ""
    return f"{len(partitions)} partition{'' if len(partitions) == 1 else 's'} ({named}{more})"
