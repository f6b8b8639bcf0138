"""The views of an ingest job: its rounds, its streams, its bad records, and their retry, which shows its dry run first.

The settings file is read for each view, as the user corrects it before a retry.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.keys import PartitionKey
from tubeclient.printable import display_uri
from tubeclient_cli.audit.command import audited
from tubeclient_cli.facts.bad_records import found_bad_records, place_columns
from tubeclient_cli.facts.groups import messages_behind
from tubeclient_ingest.settings.load_settings import load_settings
from tubeclient_ui.access import ClusterAccess, DryRuns, LagHistory, shown_error
from tubeclient_ui.bodies import with_fault
from tubeclient_ui.cluster import PAGE_ROWS, page_of, silent_problems, unasked
from tubeclient_ui.masks import Masks
from tubeclient_ui.queries import Query
from tubeclient_ui.spark import Spark, SparkBusy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tubeclient.admin.inlong_audit import AuditService
    from tubeclient_ingest.job import Ingest
    from tubeclient_ingest.rounds.past_rounds import PastRound
    from tubeclient_ingest.rounds.retrying import Retried
    from tubeclient_ingest.settings.ingest_settings import IngestSettings

__all__ = ["JobFile", "JobViews"]

_MOST_COMMITS: Final = 1_000
_NEWEST: Final = 50
_SMALL: Final = 20_000
"""Characters of base64."""
_RETRY_SECONDS: Final = 3_600.0
_STATES: Final = ("missing", "edge", "complete")
"""Of a stream's hours, the worst first."""
_NAME: Final = re.compile(r"^.* appears twice", re.DOTALL)
"""The reason that has a name of the record's own; no reason has a value."""


@dataclass(frozen=True)
class JobFile:
    """An ingest job's settings file, and what the command was given and the environment has beside it."""

    path: Path
    given: Mapping[str, Any]
    defaults: Mapping[str, Any]
    audit: AuditService | None = None

    def settings(self, **source_options: str) -> IngestSettings:
        """The settings as the file has them now, overridden by what was given and these options. ConfigurationError."""
        given = {**self.given, "source_options": {**source_options, **self.given["source_options"]}}
        return load_settings(self.path, given, self.defaults)

    def has_streams(self) -> bool:
        """Whether the job has a table for each stream, as far as its file can be read."""
        try:
            return self.settings().has_streams
        except ConfigurationError:
            return False


class JobViews:
    """Each method makes a view of a query. They raise TubeError, and SparkBusy until Spark has the answer."""

    def __init__(
        self, file: JobFile, access: ClusterAccess, history: LagHistory, spark: Spark, masks: Masks, with_messages: bool
    ) -> None:
        self._file, self._access, self._history, self._spark = file, access, history, spark
        self._masks, self._with_messages = masks, with_messages
        self._lock = threading.Lock()
        self._job: Ingest | None = None
        self._plans = DryRuns[tuple["IngestSettings", str]]()
        """Retries whose dry runs were shown."""
        self._listed: Mapping[str, dict[str, Any]] = {}
        """The records of the last list, with their bytes."""
        self._retries = 0

    def _of(self, spark: SparkSession, settings: IngestSettings) -> Ingest:
        """The job, which knows what it read of the history before."""
        from tubeclient_ingest.job import Ingest

        with self._lock:
            if self._job is None or self._job.settings != settings:
                self._job = Ingest(spark, settings=settings)
            return self._job

    def rounds(self, query: Query) -> dict[str, Any]:
        """The rounds of the history, newest first, and how far the job is behind the brokers now."""
        settings = self._file.settings()
        limit = _MOST_COMMITS if query.page else 2 * PAGE_ROWS
        found = self._spark.result(
            ("history", settings.target, settings.consumer_group, limit),
            lambda spark: self._of(spark, settings).history(limit),
            fresh_seconds=2.0,
            with_former=True,
        )
        silent: dict[int, TubeError] = {}
        behind, problems = None, []
        try:
            behind = self._behind(
                settings, next((past.end_offsets for past in found if not past.is_undone), {}), silent
            )
        except TubeError as error:
            problems = [unasked(self._access, error)]
        return {
            "job": f"{settings.consumer_group} → {display_uri(settings.target)}",
            "rounds": page_of(found, query.page),
            **_lines(found),
            "behind": behind,
            "lag": self._history.after(f"job {settings.consumer_group}", time.time(), behind),
            "problems": [*problems, *silent_problems(self._access, silent)],
        }

    def _behind(
        self, settings: IngestSettings, at: Mapping[PartitionKey, int], silent: dict[int, TubeError]
    ) -> int | None:
        admin = self._access.admin()
        bounds = admin.store_bounds(settings.topics, silent=silent)
        keys = [key for topic in admin.topics(settings.topics) for key in topic.partitions()]
        return None if silent else messages_behind({key: bounds[key.store] for key in keys}, at)

    def streams(self, query: Query) -> dict[str, Any]:
        """Each stream with the counts of a day of its records' times, by UTC, as `tubeclient audit` judges them."""
        settings, today = self._file.settings(), datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        begin = _day(query.text("day")) or today
        day = begin.date()
        if not settings.has_streams:
            raise ConfigurationError("this job writes one table, and so has no streams; its rounds have the counts")
        sent, problem, end = self._file.audit if settings.inlong_group else None, "", begin + timedelta(1)
        try:
            lines = audited(settings, None, sent, begin, end)[1]
        except TubeError as error:
            if sent is None:
                raise
            sent, problem = None, shown_error(error)
            lines = audited(settings, None, None, begin, end)[1]
        rows: dict[tuple[str, bool], Counter[str]] = {}
        for line in lines:
            if line["hour"] is None or line["hour"].startswith(day.isoformat()):
                of_stream = rows.setdefault((line["stream"], line["hour"] is None), Counter())
                of_stream.update({name: line[name] or 0 for name in ("sent", "received", "written", "bad")})
                of_stream[line["state"]] += 1
        found = [
            {"stream": stream, "timeless": timeless, **of, "state": next(state for state in _STATES if of[state])}
            for (stream, timeless), of in rows.items()
        ]
        near = {"before": day - timedelta(1), "after": day + timedelta(1) if begin < today else None}
        shown = {"streams": page_of(found, query.page), "sent": sent, "problem": problem}
        return {**shown, "day": day, **near, "file": self._file.path}

    def bad(self, query: Query) -> dict[str, Any]:
        """The bad records by reason and by day, and the newest ones."""
        reason, day, record_id = query.text("reason"), _day(query.text("day")), query.text("id")
        if reason != self._shown(reason):
            raise ConfigurationError("this reason is masked")
        found = self._found(reason, day, record_id)
        reasons = Counter[str]()
        for row in found["reasons"]:
            reasons[self._shown(row["reason"])] += row["records"]
        newest = [
            {**row, "reason": self._shown(row["reason"]), "value": self._value(row["value"])} for row in found["newest"]
        ]
        days = [(row["day"], row["records"]) for row in found["days"]]
        return {"found": found, "reasons": reasons.most_common(PAGE_ROWS), "days": days, "newest": newest}

    def record(self, query: Query) -> dict[str, Any]:
        """One bad record with its bytes."""
        known = self._listed.get(query.text("id"))
        found = [known] if known else self._found("", None, query.text("id"))["newest"]
        if not found:
            raise ConfigurationError("this record is not bad by now, or its table does not have it")
        row, reason = found[0], self._shown(found[0]["reason"])
        hidden = self._masks.hide({"bad": reason, "base64": row["valueBase64"]})
        value = None if row["valueBase64"] is None else with_fault(hidden, query.text("show"), reason)
        return {"row": row, "reason": reason, "places": place_columns(), "value": value}

    def _found(self, reason: str, day: datetime | None, record_id: str) -> dict[str, Any]:
        settings = self._with_bad_records()

        def work(spark: SparkSession) -> dict[str, Any]:
            records = self._of(spark, settings).bad_records()
            how: dict[str, Any] = {"days": 1, "record_id": record_id or None}
            found = found_bad_records(records, reason or None, day, 1 if record_id else _NEWEST, **how)
            if not record_id:  # Spark would take seconds for each again; large ones would fill the memory
                small = [row for row in found["newest"] if len(row["valueBase64"] or "") <= _SMALL]
                self._listed = {row["id"]: row for row in small}
                found["newest"] = [{**row, "valueBase64": None} for row in found["newest"]]
            return found

        key = "bad", self._retries, settings.bad_records, settings.target, reason, day, record_id
        return self._spark.result(key, work, seconds=300.0, fresh_seconds=15.0)

    def _with_bad_records(self) -> IngestSettings:
        settings = self._file.settings()
        if settings.bad_records is None:
            raise ConfigurationError(f"{self._file.path} has no bad-records in [ingest]; name the table")
        return settings

    def _shown(self, reason: str) -> str:
        return self._masks.text(reason if self._with_messages else _NAME.sub("a name appears twice", reason))

    def _value(self, value: str | None) -> str | None:
        if not self._with_messages or value is None:
            return None
        return str(self._masks.hide({"bad": "", "value": value})["value"])

    def retry(self, query: Query) -> dict[str, Any]:
        """What a retry would do, once that is wanted."""
        reason, key = query.text("reason"), query.text("plan")
        shown = {"file": self._file.path, "reason": reason}
        if not query.text("dry"):
            return {**shown, "key": key, "found": None}
        if (plan := self._plans.get(key)) is None:
            key = self._plans.add(plan := (self._with_bad_records(), reason))
        settings, reason = plan
        try:
            found = self._result_of(key, lambda spark: _retried(spark, settings, reason, dry_run=True), dry_run=True)
        except SparkBusy as busy:
            busy.query = {"plan": key}
            raise
        return {**shown, "key": key, "found": found}

    def retried(self, query: Query, *, wanted: bool) -> dict[str, Any]:
        """Do what a dry run showed, once, if it is `wanted`; what it did."""
        key = query.text("plan")
        if not wanted and self._plans.get(key) is not None:
            raise ConfigurationError("this retry was not begun; make another dry run")

        def work(spark: SparkSession) -> Retried:
            found = _retried(spark, *self._plans.take(key), dry_run=False)
            self._retries += 1
            return found

        return {"found": self._result_of(key, work, dry_run=False)}

    def _result_of(self, key: str, work: Callable[[SparkSession], Retried], *, dry_run: bool) -> Retried:
        return self._spark.result(("retry", key, dry_run), work, seconds=_RETRY_SECONDS, fresh_seconds=math.inf)


def _retried(spark: SparkSession, settings: IngestSettings, reason: str, *, dry_run: bool) -> Retried:
    from tubeclient_ingest.job import Ingest

    return Ingest(spark, settings=settings).retry(reason or None, dry_run=dry_run)


def _day(text: str) -> datetime | None:
    """Its beginning, by UTC; None without a text. ConfigurationError."""
    try:
        return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC) if text else None
    except ValueError:
        raise ConfigurationError(f"day is {text[:20]!r}; write it as 2026-11-21") from None


def _lines(found: Sequence[PastRound]) -> dict[str, list[tuple[float, float]]]:
    """Rows per second since the round before, and the share of bad records in percent, over time."""
    rounds = [past for past in reversed(found) if not (past.is_undone or past.is_retry) and past.timestamp is not None]
    rates, shares, before = [], [], None
    for past in rounds:
        at = past.timestamp.timestamp() if past.timestamp else 0.0
        if before is not None and at > before:
            rates.append((at, round((past.rows or 0) / (at - before), 1)))
        if total := (past.rows or 0) + past.bad_rows:
            shares.append((at, round(100 * past.bad_rows / total, 3)))
        before = at
    return {"rates": rates, "shares": shares}
