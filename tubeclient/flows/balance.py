"""One round of balancing: release the partitions that are no longer ours, then take those that are not held yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tubeclient.errors import NotAvailable, TransportError, TubeError
from tubeclient.flows.effects import Flow, Now
from tubeclient.flows.read_plan import BootstrapOffset
from tubeclient.flows.registrations import Registrations
from tubeclient.keys import PartitionKey
from tubeclient.metadata import ClusterView

__all__ = ["balance_once"]


def balance_once(
    registrations: Registrations,
    view: ClusterView,
    ours: Collection[PartitionKey],
    offsets: Mapping[PartitionKey, int],
    *,
    release_wait_ms: float,
    doubtful: Collection[int] = (),
) -> Flow[dict[PartitionKey, TubeError]]:
    """Give back what is not in `ours` or takes no readers now, then take what is missing.

    A partition begins at its offset in `offsets`, else where the group stands. All releases together wait up to
    `release_wait_ms` for packs that are out. Brokers whose ids are `doubtful` come last, since each one that does not
    answer costs the time of one call. Returns the partitions that could not be taken, and why. Raises errors
    that no further round would change.
    """
    wanted = {key for key in ours if view.is_subscribable(key)}
    held = set(registrations.holdings.registered())
    deadline = (yield Now()) + release_wait_ms
    for key in sorted(held - wanted):
        now: float = yield Now()
        yield from registrations.disconnect(key, wait_ms=max(0.0, deadline - now))
    for key in registrations.registrar.left.keys() - set(ours):  # another node continues them
        del registrations.registrar.left[key]
    refused: dict[PartitionKey, TubeError] = {}
    silent: dict[int, TubeError] = {}
    for key in sorted(wanted - held, key=lambda key: (key.broker_id in doubtful, key)):
        if key.broker_id in silent:
            refused[key] = silent[key.broker_id]
            continue
        try:
            yield from registrations.connect(view, key, offsets.get(key, BootstrapOffset.STORED), timeout_ms=0)
        except TubeError as error:
            if not error.retriable and not isinstance(error, NotAvailable):
                raise
            refused[key] = error
            if isinstance(error, TransportError):
                silent[key.broker_id] = error
    return refused
