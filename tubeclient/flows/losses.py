"""What expired before a consumer read it: looks for it when an answer leaves that in doubt, and tells it once."""

from __future__ import annotations

import logging
import random

from tubeclient.errors import DataLoss, TubeError
from tubeclient.flows.data_probe import DataProbe
from tubeclient.flows.effects import Flow
from tubeclient.flows.holding import Holding
from tubeclient.flows.read_plan import ReadPlan
from tubeclient.flows.read_session import ReaderNames, RetryPolicy
from tubeclient.keys import INDEX_ENTRY_BYTES, OffsetRange

_log = logging.getLogger(__name__)

_PROBE_MS = 5_000.0
"""Time limit of a look, since the application waits for its packs."""
_LONG_SILENCE_MS = 60_000.0
"""Shorter than any retention of a broker."""


class Losses:
    """Those of one consumer. Without reader groups it looks for none."""

    def __init__(self, plan: ReadPlan, rng: random.Random) -> None:
        self._plan, self._rng = plan, rng
        self._unreported: list[tuple[Holding, OffsetRange]] = []

    def raise_or_log(self) -> None:
        """Raise DataLoss for the first loss that was not told yet. If the plan says so, log all of them instead."""
        while self._unreported:
            holding, lost = self._unreported[0]
            error = DataLoss(
                f"up to {lost.max_messages} messages of {lost} expired at broker {holding.line.info} before they "
                "were read. Reading continues after them; set fail_on_data_loss=False to get no error",
                partition=str(lost.partition),
                wanted=lost.start,
                found=lost.end,
            )
            del self._unreported[0]  # as late as this: the caller may be interrupted
            if self._plan.fail_on_data_loss:
                raise error
            _log.warning("expired before they were read: %s", lost)

    def expected(self, holding: Holding) -> int | None:
        """Where a pack begins at the latest if nothing expired. None if that is not known.

        After an empty answer the group may stand further on than we know: it passed over entries of other partitions.
        But if nothing was seen for long after that, messages may have expired.
        """
        unseen = holding.sent_ms - holding.read_ms > _LONG_SILENCE_MS
        holding.read_ms = holding.sent_ms
        if unseen:
            holding.suspect_loss(holding.confirmed)
        return holding.confirmed if holding.expected is None and unseen else holding.expected

    def check_gap(self, holding: Holding, expected: int, start: int) -> Flow[None]:
        """Messages expired, or somebody moved the group on purpose. The pack is asked for again after a look."""
        if holding.suspected_loss is None or holding.fresh:
            holding.suspected_loss, holding.fresh = expected, False
        suspected_loss = holding.suspected_loss
        holding.rest(expected=start)
        yield from self.settle(holding)
        if holding.suspected_loss == suspected_loss and self._plan.reader_groups:
            # The look failed. Nobody else will tell of this gap, so it counts as a loss.
            self._note(OffsetRange(holding.key, expected, start), holding)
            holding.clear_suspicion()

    def settle(self, holding: Holding, *, messages: int = 0, end: int | None = None) -> Flow[None]:
        """Settle `holding.doubt`, and note the range that expired before it was read, if one did.

        So many `messages` came of the entries up to `end`, None if the end is not known. If the look fails, the doubt
        stays for the next answer.
        """
        start, plan = holding.suspected_loss, self._plan
        if start is None or not plan.reader_groups:
            return
        if end is not None and (end - start) // INDEX_ENTRY_BYTES <= messages:
            holding.clear_suspicion()
            return
        others = [key for key in holding.siblings if key != holding.key]
        names = ReaderNames(plan.reader_groups, plan.new_client_id, plan.authority)
        probe = DataProbe(holding.line.info, [holding.key, *others], names)
        seen: tuple[int, int] | None = None
        try:
            seen = yield from probe.first_if_behind(start, RetryPolicy(holding.line.info, self._rng, _PROBE_MS))
        except TubeError as error:
            _log.info("unknown whether messages of %s from %d on have expired: %s", holding.key, start, error)
        yield from probe.release()  # not if the caller is interrupted: a closed flow can send nothing
        if seen is None or holding.suspected_loss != start:
            return  # unknown, or it was moved meanwhile
        index_start, first = seen
        is_new = holding.fresh and start <= index_start
        if first > start and not is_new:
            self._note(OffsetRange(holding.key, start, first), holding)  # first: the caller may be interrupted
        holding.clear_suspicion(fresh=is_new and messages == 0)

    def _note(self, lost: OffsetRange, holding: Holding) -> None:
        holding.lost_to = lost.end
        self._plan.counts.lost(holding.key.topic, lost.max_messages)
        self._unreported.append((holding, lost))
