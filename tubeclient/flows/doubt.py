"""What a consumer does if it does not know whether the messages from its position on are still there.

A broker skips index entries without data and says nothing, as it skips those of other partitions. Data expires unread
only between two runs of a group, or in a long pause. So the first answer after a registration or a pause is counted: if
it has as many messages as index entries, nothing is missing. Otherwise a look under a reader group shows where the
broker's data begins.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from tubeclient.errors import TubeError
from tubeclient.flows.data_look import DataLook
from tubeclient.flows.effects import Flow
from tubeclient.flows.holding import Holding
from tubeclient.flows.patience import Patience
from tubeclient.flows.read_plan import ReadPlan
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange

__all__ = ["settle_doubt"]

_log = logging.getLogger(__name__)

_LOOK_MS = 5_000.0
"""Time limit of a look, since the application waits for its packs."""


def settle_doubt(
    holding: Holding,
    plan: ReadPlan,
    rng: random.Random,
    note: Callable[[OffsetRange], None],
    *,
    messages: int,
    end: int | None,
) -> Flow[None]:
    """Settle `holding.doubt`, and `note` the range that expired before it was read, if one did.

    So many `messages` came of the entries up to `end`, None if the end is not known. If the look fails, the doubt
    stays for the next answer.
    """
    doubt = holding.doubt
    if doubt is None or not plan.reader_groups:
        return
    start = doubt.start
    if end is not None and (end - start) // INDEX_ENTRY_BYTES <= messages:
        holding.doubt_settled()
        return
    others = [key for key in holding.siblings if key != holding.key]
    look = DataLook(holding.line.info, [holding.key, *others], plan.reader_groups, plan.new_client_id, plan.authority)
    seen: tuple[int, int] | None = None
    try:
        seen = yield from look.first_if_behind(start, Patience(_LOOK_MS, _LOOK_MS), rng)
    except TubeError as error:
        _log.info("unknown whether messages of %s from %d on have expired: %s", holding.key, start, error)
    yield from look.release()  # not if the caller is interrupted: a closed flow can send nothing
    if seen is None or holding.doubt is not doubt:
        return  # unknown, or it was moved meanwhile
    index_start, first = seen
    is_new = doubt.may_be_new and start <= index_start
    if first > start and not is_new:
        note(OffsetRange(holding.key, start, first))  # first: the caller may be interrupted
    holding.doubt_settled(at_first=is_new and messages == 0)
