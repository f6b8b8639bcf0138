"""Bad records of the target: their states, and the retry, which moves those that can be parsed by now."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from spark_source.typed.columns import ARRIVAL, LINEAGE
from spark_source.typed.record_format import target_rows
from tubeclient.errors import ConfigurationError
from tubeclient.records.spec import CHANGES
from tubeclient_ingest.commits.beginning import OvertakenRun
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.rounds.bad_records import BAD_ID
from tubeclient_ingest.rounds.upserts import KEY_PROPERTY
from tubeclient_ingest.rounds.writing import TRIES, Writer
from tubeclient_ingest.tasks.counting import count, persisted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Retried(NamedTuple):
    """What a retry did, or would do."""

    moved: int
    """How many bad records are in the target now, or would be."""
    still_bad: int
    """How many of the chosen ones cannot be parsed."""
    unread: int = 0
    """How many of the chosen ones were not tried, because the source itself could not read their messages."""
    without_value: int = 0
    """How many of the others were not tried, because their bytes were not kept."""


def bad_records(writer: Writer) -> DataFrame:
    """The group's bad records of the target, with their states."""
    return _with_states(writer)[1]


def _with_states(writer: Writer) -> tuple[SinkState, DataFrame]:
    """The same, and what the target said then."""
    assert writer.bad_records is not None
    found = writer.unconfirmed(writer.sink.read_state())
    return found.state, writer.bad_records.with_states(found.state, found.there)


def retry(writer: Writer, reason: str | None, *, dry_run: bool = False) -> Retried:
    """Move the bad records that can be parsed by now to the target; `reason` is a part of their reason.

    It is a commit of the group like a round's, which leaves the offsets where they are. With `dry_run` it counts
    the records of the table as it is, and writes nothing. Raises ConfigurationError.
    """
    for _ in range(TRIES):
        try:
            return _retry(writer, reason, dry_run=dry_run)
        except OvertakenRun:  # its marks count for nothing; the job may not see them for long
            writer.confirm(writer.sink.read_state())
    raise ConfigurationError(
        f"other runs of group {writer.settings.consumer_group} wrote to {writer.sink.where} during each of {TRIES} "
        "tries; nothing was moved there. Try again, or stop the job while you retry"
    )


def _retry(writer: Writer, reason: str | None, *, dry_run: bool) -> Retried:
    table, (state, rows) = writer.bad_records, _with_states(writer)
    assert table is not None
    before = _of_retry(writer, state)
    bad = table.bad(rows, writer.options.topics, reason)
    chosen, passed_over = table.to_retry(bad, writer.options), table.not_to_retry(bad)
    _check_keyed(writer, chosen)
    if not writer.record_format.has_change:
        chosen = chosen.drop(ARRIVAL)
    with persisted(writer.rules.checked(writer.record_format.parse(chosen))) as parsed:
        counted = count(parsed)
        good = counted.total - counted.bad
        if good and not dry_run:
            record = replace(before, run_id=uuid.uuid4().hex, bad=good, retry_of=before.round)
            numbered = state.numbered(record)
            table.add_marks(parsed, numbered, writer.detail)
            rows = target_rows(parsed)
            if LINEAGE in rows.columns:
                rows = rows.withColumn(LINEAGE, rows[LINEAGE].dropFields(BAD_ID))
            writer.commit(rows.drop(BAD_ID), record, state)
    return Retried(good, counted.bad, *passed_over)


def _check_keyed(writer: Writer, chosen: DataFrame) -> None:
    """ConfigurationError, with a key: the target does not say it yet, or it is not known which record came last."""
    form, where = writer.record_format, writer.sink.where
    if form.keys and KEY_PROPERTY not in writer.detail.properties:
        raise ConfigurationError(
            f"{where} does not have the newest row of each {','.join(form.keys)} yet. Start the job with this key once,"
            " then retry"
        )
    if (
        form.keys
        and form.order_by is None
        and form.kind not in CHANGES
        and chosen.where(f"{ARRIVAL}.place < 0").take(1)
    ):
        raise ConfigurationError(
            "order-by is arrival, but a job without a key kept some of these records, and not in which order they came."
            " Read them again with another group and target"
        )


def _of_retry(writer: Writer, state: SinkState) -> SinkRecord:
    """The group's last commit. ConfigurationError if a retry cannot go on from it."""
    group, where = writer.settings.consumer_group, writer.sink.where
    if state.record is None:
        if not state.is_whole:
            raise ConfigurationError(
                f"Delta's history of {where} no longer has a commit of group {group}. Let the job write a round first"
            )
        raise ConfigurationError(f"{where} has no commit of group {group}, so the group has no bad records there")
    if state.is_put_back:
        raise ConfigurationError(
            f"{where} is an older copy, and lacks commits of group {group}. Let the job write a round first, which "
            "reads their records again"
        )
    if state.undone is not None:
        # The next commit would be the newest one, and hide what RESTORE took out.
        raise ConfigurationError(
            f"RESTORE removed commits of group {group} from {where}. Let the job write a round first, which reads "
            "them again"
        )
    if state.taken_out is not None and state.taken_out.everything:
        raise ConfigurationError(
            f"version {state.taken_out.version} of {where} ({state.taken_out.operation})"
            f" {state.taken_out.how.value}. Let the job write a round first"
        )
    return state.record
