"""`Ingest`: the job as an object, in the style of Spark's own handle of a query."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import fields
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError
from tubeclient.html_table import html_table
from tubeclient.printable import counted
from tubeclient_ingest.lineage import Lineage, reported
from tubeclient_ingest.rounds.past_rounds import PastRound, PastRounds
from tubeclient_ingest.rounds.retrying import Retried, bad_records, retry
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.run import Begins, Engine, Event, IngestSummary, Reading, Round, Run
from tubeclient_ingest.settings.group_settings import check_group
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.load_settings import IngestArguments, load_settings
from tubeclient_ingest.tables.spark_errors import IngestFailed, explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Ingest", "IngestFailed"]


class Ingest:
    """Reads a group's topics into a Delta table, each message once.

        >>> job = Ingest(  # doctest: +SKIP
        ...     spark,
        ...     master_servers="10.0.0.1:8715",
        ...     consumer_group="clicks_etl",
        ...     topics=["clicks"],
        ...     target="/lake/clicks",
        ... )
        >>> job.run()  # doctest: +SKIP

    `run` reads what there is or, with `trigger`, reads until it is stopped. `start` does the same in the background. A
    job can run again after it has ended. `from_file` reads the arguments from a settings file.

    Args:
        spark: A classic session or one of Spark Connect.
        settings: All arguments as one object, instead of the keywords.
        stop: Ends a run when it is set, like the method `stop`. The job does not clear it.
        **given: The settings of a settings file, with underscores in their names. `master_servers`, `consumer_group`,
            `target`, and `topics` or `inlong_group` are required.

    Raises:
        ConfigurationError: The arguments do not fit, or `spark` is None.
    """

    def __init__(
        self,
        spark: SparkSession,
        *,
        settings: IngestSettings | None = None,
        stop: threading.Event | None = None,
        **given: Unpack[IngestArguments],
    ) -> None:
        if spark is None:
            raise ConfigurationError("spark is None; pass a SparkSession, such as pyspark_tubeclient.session()")
        self._spark = spark
        if settings is not None:
            check_group(settings)
        self.settings = load_settings(None, given) if settings is None else settings
        self._stops_from_outside = stop is not None
        self._stop = stop or threading.Event()
        self._thread: threading.Thread | None = None
        self._running = threading.Lock()
        self._past: PastRounds | None = None
        self._error: Exception | None = None
        self._last: Round | None = None
        self._count = 0
        self._began = 0.0
        self._ended: float | None = None
        self._status = "not started"

    @classmethod
    def from_file(cls, spark: SparkSession, path: str | Path, **overrides: Unpack[IngestArguments]) -> Ingest:
        """Make the job of a settings file, such as conf/ingest.toml.

        Args:
            **overrides: Override settings of the file. Options are merged entry by entry.

        Raises:
            ConfigurationError: A setting is wrong or missing. The error names the file and the entry.
        """
        return cls(spark, settings=load_settings(Path(path), overrides))

    def run(self, on_event: Callable[[Event], object] = lambda _: None) -> IngestSummary:
        """Run in this thread until everything that was there is read.

        With `trigger`, run until another thread calls `stop`.

        Args:
            on_event: Called with each event of the run, such as a `Round`.

        Raises:
            ConfigurationError: The job runs already, or settings do not fit what is there.
            IngestFailed: Spark failed, a record is bad, or a table cannot be used.
            TubeError: Any other error of the cluster.
            OffsetsTableError: The offsets table cannot be used.
        """
        self._acquire()
        try:
            self._run(on_event)
        finally:
            self._running.release()
        return self.summary

    def start(self) -> Ingest:
        """Run in the background.

        Returns:
            This job. `awaitTermination` and `exception` have the error that ends the run.

        Raises:
            ConfigurationError: The job runs already.
        """
        self._acquire()

        def work() -> None:
            try:
                with suppress(Exception):  # `exception` has it
                    self._run(lambda _: None)
            finally:
                self._running.release()

        self._thread = threading.Thread(target=work, name=f"ingest {self.settings.consumer_group}", daemon=True)
        self._thread.start()
        return self

    def _acquire(self) -> None:
        if not self._running.acquire(blocking=False):
            raise ConfigurationError("this job is already running; stop it first")
        if not self._stops_from_outside:
            self._stop.clear()

    def stop(self) -> None:
        """End the run after its current round. Waits until a run in the background has ended."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until the run in the background has ended.

        Args:
            timeout: Seconds to wait; None waits without limit.

        Returns:
            Whether the run has ended.

        Raises:
            Exception: The error that ended the run; see `run`.
        """
        if self._thread is not None:
            self._thread.join(timeout)
        if self.isActive:
            return False
        if self._error is not None:
            raise self._error
        return True

    def exception(self) -> Exception | None:
        """Return the error that ended the last run; None if it is running, was stopped, or has read everything."""
        return self._error

    @property
    def isActive(self) -> bool:
        """Whether the job is running."""
        return self._running.locked()

    @property
    def status(self) -> str:
        """What the job is doing, in a few words."""
        return self._status

    @property
    def lastProgress(self) -> Round | None:
        """The last complete round of the run; None before the first."""
        return self._last

    @property
    def summary(self) -> IngestSummary:
        """What the last run has done so far."""
        last = self._last
        end = time.monotonic() if self._ended is None else self._ended
        return IngestSummary(
            rows=last.total_rows if last else 0,
            rounds=self._count,
            seconds=end - self._began if self._began else 0.0,
            rows_behind=last.rows_behind if last else 0 if self._status == "done" else None,
            stopped=self._stop.is_set(),
            bad_rows=last.total_bad_rows if last else 0,
            other_rows=last.total_other_rows if last else 0,
        )

    def reset_offsets(self, topics: Sequence[str]) -> str:
        """Make the group start these topics again at `starting_offsets`, or at earliest, wherever their rows end.

        Use it for topics that were deleted and created again. Other topics get rows twice. The new start is recorded in
        the target; no rows are read.

        Args:
            topics: Names of topics that the job reads.

        Returns:
            The new start, in words.

        Raises:
            ConfigurationError: The job does not read a topic, or `starting_offsets` is the target.
            TubeError: As in `run`.
            OffsetsTableError: As in `run`.
        """
        topics = [topics] if isinstance(topics, str) else topics
        self.settings.check_topics(topics)
        with explained(), Engine.on(self._spark, self.settings) as engine:
            Run(engine, self.settings, self._track).until_end(threading.Event(), topics)
        return self._status

    def retry(self, reason: str | None = None, *, dry_run: bool = False) -> Retried:
        """Move the bad records that can be parsed by now to the target. Another run of the job may go on meanwhile.

        Args:
            reason: A part of the reason of the records to choose; None chooses all.
            dry_run: Only count the records.

        Returns:
            How many records were moved, or would be, and how many were not.

        Raises:
            ConfigurationError: The setting `bad_records` is not given, or the target has no commit to go on from.
            TubeError: As in `run`.
            OffsetsTableError: As in `run`.
        """
        with explained(), Engine.on(self._spark, self.settings) as engine:
            done = [retry(writer, reason, dry_run=dry_run) for writer in self._writers_of_bad_records(engine)]
        return Retried(*map(sum, zip(*done, strict=True))) if done else Retried(0, 0)

    def history(self, limit: int = 100) -> list[PastRound]:
        """Return the job's rounds, by the history of its table: those that are among the table's last commits.

        Args:
            limit: How many of the table's last commits to look at, those of others too.

        Returns:
            The rounds, newest first; none if there is no table.

        Raises:
            ConfigurationError: The table's history cannot be read as the job's.
            TubeError: As in `run`.
        """
        with explained():
            self._past = self._past or PastRounds(self._spark, self.settings)
            return self._past.newest(limit)

    def bad_records(self) -> DataFrame:
        """Return the group's bad records for the target. Their column `state` is bad, retried or undone.

        Raises:
            ConfigurationError: The setting `bad_records` is not given, or no stream has appeared yet.
            TubeError: As in `run`.
            OffsetsTableError: As in `run`.
        """
        with explained():
            frames = [bad_records(writer) for writer in self._writers_of_bad_records(Engine(self._spark))]
        if not frames:
            raise ConfigurationError("no stream has appeared yet")
        return reduce(lambda some, others: some.unionByName(others), frames)

    def _writers_of_bad_records(self, engine: Engine) -> Iterator[Writer]:
        if self.settings.bad_records is None:
            raise ConfigurationError("bad-records is not set; name the table")
        return Run(engine, self.settings).tables.writers()

    def _run(self, on_event: Callable[[Event], object]) -> None:
        self._error, self._last, self._count, self._began, self._ended = None, None, 0, time.monotonic(), None
        self._status = "starts"

        lineage: Lineage | None = None

        def record_event(event: Event) -> None:
            self._track(event)
            if lineage is not None:
                lineage.take(event)
            on_event(event)

        try:
            with ExitStack() as within:
                if self.settings.lineage is not None:
                    lineage = within.enter_context(reported(self._spark, self.settings, self._stop))
                within.enter_context(explained())
                engine = within.enter_context(Engine.on(self._spark, self.settings))
                engine.wrote = None if lineage is None else lineage.wrote
                Run(engine, self.settings, record_event).until_end(self._stop)
            self._status = "stopped" if self._stop.is_set() else "done"
        except Exception as error:
            self._error, self._status = error, f"failed: {error_text(error)}"
            raise
        finally:
            self._ended = time.monotonic()

    def _track(self, event: Event) -> None:
        match event:
            case Begins(text):
                self._status = text
            case Reading():
                self._status = "the first round is being read"
            case Round():
                self._last = event
                self._count += 1
                self._status = (
                    f"{counted(event.total_rows, 'row')} written, messages behind: {_behind(event.rows_behind)}"
                )

    def _repr_html_(self) -> str:
        """For notebooks: where it stands, and the last round."""
        title = f"ingest {self.settings.consumer_group}: {self._status}"
        columns = ("time", "rows", "bad", "rows/s", "messages behind")
        rows = []
        if (last := self._last) is not None:
            behind = _behind(last.rows_behind)
            rows.append((last.time, f"{last.rows:,}", f"{last.bad_rows:,}", f"{last.rows_per_second:,.0f}", behind))
        return html_table(title, columns, rows, count=len(rows))


# For help and completion: each setting by its name, instead of `given`.
*_own, _ = inspect.signature(Ingest).parameters.values()
Ingest.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    _own
    + [
        inspect.Parameter(field.name, _own[-1].kind, default=None, annotation=field.type)
        for field in fields(IngestSettings)
    ]
)


def _behind(rows: int | None) -> str:
    return "unknown" if rows is None else f"{rows:,}"
