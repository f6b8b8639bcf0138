"""`Ingest`: the job as an object, in the style of Spark's own handle of a query."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tubeclient.conditions import said
from tubeclient.errors import ConfigurationError, DataLoss, TubeError
from tubeclient_ingest.advice import short_cause, with_advice
from tubeclient_ingest.on_spark import SparkEngine
from tubeclient_ingest.progress import Events, IngestSummary, Round, ToAll
from tubeclient_ingest.run import Run
from tubeclient_ingest.settings import IngestSettings, load_settings
from tubeclient_ingest.target import spark_errors
from tubeclient_ingest.writing import Retried, Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Ingest", "IngestFailed", "explained"]

_log = logging.getLogger(__name__)

_RECENT: Final = 100
_TAG: Final = "tubeclient-ingest"
_WATCH_SECONDS: Final = 0.25
_CUT_SECONDS: Final = 1.0
_CONDITION: Final = re.compile(r"\[([A-Z_]+)\] (.*)", re.DOTALL)


class IngestFailed(TubeError):
    """A run ended because Spark failed, a record is bad, or the cluster or a table cannot be used. One line says why;
    `condition` names what has a name."""

    def __init__(self, cause: str) -> None:
        named = _CONDITION.fullmatch(cause)
        super().__init__(named[2] if named else cause)
        self.condition = named[1] if named else None  # type: ignore[assignment]


class Ingest:
    """A group's topics into a Delta table, each message once.

    >>> job = Ingest(  # doctest: +SKIP
    ...     spark, master_servers="10.0.0.1:8715", consumer_group="clicks_etl", topics=["clicks"], target="lake.clicks"
    ... )
    >>> job.run()  # doctest: +SKIP

    The arguments are those of a settings file, with underscores; `from_file` reads one. The session may be classic or
    of Spark Connect. `run` reads what there is, or with `trigger` until it is stopped; `start` does the same in the
    background. A job may run again when it has ended. ConfigurationError for arguments that do not fit.
    """

    def __init__(self, spark: SparkSession, **settings: Any) -> None:
        self._begin(spark, load_settings(None, settings))

    @classmethod
    def from_file(cls, spark: SparkSession, path: str | Path, **overrides: Any) -> Ingest:
        """The job of a settings file, as conf/ingest.toml; `overrides` override it."""
        return cls.of(spark, load_settings(Path(path), overrides))

    @classmethod
    def of(cls, spark: SparkSession, settings: IngestSettings, stop: threading.Event | None = None) -> Ingest:
        """The job with these settings; `stop` ends a run as the method does."""
        made = cls.__new__(cls)
        made._begin(spark, settings, stop)
        return made

    def _begin(self, spark: SparkSession, settings: IngestSettings, stop: threading.Event | None = None) -> None:
        self._spark = spark
        self.settings = settings
        self._stops_from_outside = stop is not None
        self._stop = stop or threading.Event()
        self._thread: threading.Thread | None = None
        self._running = threading.Lock()
        self._error: Exception | None = None
        self._rounds: deque[Round] = deque(maxlen=_RECENT)
        self._count = 0
        self._began = 0.0
        self._ended: float | None = None
        self._status = "not started"
        self._begins = ""

    def run(self, events: Events | None = None) -> IngestSummary:
        """Run in this thread until all is read that there was, or with `trigger` until another thread calls `stop`.

        Raises IngestFailed, other TubeErrors, OffsetsTableError.
        """
        if not self._running.acquire(blocking=False):
            raise ConfigurationError("this job runs already; stop it first")
        try:
            self._run(events)
        finally:
            self._running.release()
        return self.summary

    def start(self) -> Ingest:
        """Run in the background. Returns this job."""
        if not self._running.acquire(blocking=False):
            raise ConfigurationError("this job runs already; stop it first")

        def work() -> None:
            try:
                with suppress(Exception):  # `exception` has it
                    self._run(None)
            finally:
                self._running.release()

        self._thread = threading.Thread(target=work, name=f"ingest {self.settings.consumer_group}", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End after the running round, or after stop-timeout-s in its middle. Waits until the run has ended."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def awaitTermination(self, timeout: float | None = None) -> bool:
        """Wait until the run has ended, or for `timeout` seconds; returns whether it has. Raises what ended it."""
        if self._thread is not None:
            self._thread.join(timeout)
        if self.isActive:
            return False
        if self._error is not None:
            raise self._error
        return True

    def exception(self) -> Exception | None:
        """What ended the last run; None if it runs, was stopped, or has read all."""
        return self._error

    @property
    def isActive(self) -> bool:
        """Whether it runs."""
        return self._running.locked()

    @property
    def status(self) -> str:
        """What it does, in a few words."""
        return self._status

    @property
    def lastProgress(self) -> Round | None:
        """The last complete round."""
        return self._rounds[-1] if self._rounds else None

    @property
    def recentProgress(self) -> list[Round]:
        """The last 100 complete rounds."""
        return list(self._rounds)

    @property
    def summary(self) -> IngestSummary:
        """What the last run did so far."""
        last = self.lastProgress
        end = time.monotonic() if self._ended is None else self._ended
        return IngestSummary(
            rows=last.total_rows if last else 0,
            rounds=self._count,
            seconds=end - self._began if self._began else 0.0,
            rows_behind=last.rows_behind if last else 0 if self._status == "done" else None,
            stopped=self._stop.is_set(),
            bad_rows=last.total_bad_rows if last else 0,
        )

    def begin_anew(self, topics: Sequence[str]) -> str:
        """Say in the target that the group begins these topics by `starting_offsets`, or at earliest, wherever their
        rows end: for topics that were deleted and created again. Other topics get rows twice. Returns what it says.
        Raises as `run`."""
        topics = [topics] if isinstance(topics, str) else topics
        strange = sorted(set(topics).difference(self.settings.topics))
        if strange:
            raise ConfigurationError(f"the job does not read {', '.join(strange)}, which are to begin anew")
        with explained(), SparkEngine.on(self._spark, self.settings) as engine:
            Run(engine, self.settings, _Kept(self)).until_end(threading.Event(), topics)
        return self._begins

    def retry(self, reason: str | None = None, *, dry_run: bool = False) -> Retried:
        """Move the bad records that can be parsed by now to the target; `reason` is a part of their reason, None
        chooses all. With `dry_run` only count them. Another run of the job may go on meanwhile. Raises as `run`."""
        with explained(), SparkEngine.on(self._spark, self.settings) as engine:
            return self._writer_of_bad_records(engine).retry(reason, dry_run=dry_run)

    def bad_records(self) -> DataFrame:
        """The group's bad records for the target, with the column `state`: bad, retried or undone. Raises as `run`."""
        with explained():
            return self._writer_of_bad_records(SparkEngine(self._spark)).bad_records()

    def _writer_of_bad_records(self, engine: SparkEngine) -> Writer:
        if self.settings.bad_records is None:
            raise ConfigurationError("bad-records is not given; name the table")
        writer = Run(engine, self.settings).writer
        writer.open(create=False)
        return writer

    def _run(self, events: Events | None) -> None:
        self._error, self._count, self._began, self._ended = None, 0, time.monotonic(), None
        if not self._stops_from_outside:
            self._stop.clear()
        self._rounds.clear()
        self._status = "starts"
        over, cut_off = threading.Event(), threading.Event()
        try:
            with explained(), SparkEngine.on(self._spark, self.settings) as engine:
                if engine.spark is self._spark:
                    self._spark.addTag(_TAG)
                watch = threading.Thread(
                    target=self._watch, args=(engine.spark, over, cut_off), name="ingest-stop", daemon=True
                )
                watch.start()
                Run(engine, self.settings, ToAll(_Kept(self), events or Events())).until_end(self._stop)
            self._status = "stopped" if self._stop.is_set() else "done"
        except Exception as error:
            if cut_off.is_set():
                self._status = "stopped in the middle of a round; the next run begins where the rows end"
                return
            self._error, self._status = error, f"failed: {said(error)}"
            raise
        finally:
            self._ended = time.monotonic()
            over.set()

    def _watch(self, own: SparkSession, over: threading.Event, cut_off: threading.Event) -> None:
        """Interrupt a round that goes on for too long after a stop."""
        while not self._stop.is_set():
            if over.wait(_WATCH_SECONDS):
                return
        if over.wait(self.settings.stop_timeout_s):
            return
        cut_off.set()
        while not over.wait(_CUT_SECONDS):  # between two of Spark's jobs there is nothing to interrupt
            with suppress(Exception):
                if own is self._spark:
                    own.interruptTag(_TAG)  # the user may do other things in it
                else:
                    own.interruptAll()


class _Kept(Events):
    """Keeps in its job what the last run did."""

    def __init__(self, job: Ingest) -> None:
        self._job = job

    def begins(self, text: str) -> None:
        self._job._begins = self._job._status = text

    def reads(self) -> None:
        self._job._status = "the first round is being read"

    def done(self, round_: Round) -> None:
        self._job._rounds.append(round_)
        self._job._count += 1
        self._job._status = f"{round_.total_rows:,} rows, {_behind(round_.rows_behind)}"


def _behind(rows: int | None) -> str:
    return "messages behind unknown" if rows is None else f"{rows:,} messages behind"


@contextmanager
def explained() -> Iterator[None]:
    """Errors of Spark within it become one line; others that the source raises get this job's advice."""
    try:
        yield
    except DataLoss as error:
        raise IngestFailed(with_advice(said(error))) from None
    except spark_errors() as error:
        _log.debug("what Spark said", exc_info=True)
        raise IngestFailed(with_advice(short_cause(said(error)))) from None
