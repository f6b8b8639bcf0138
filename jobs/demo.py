"""The demonstration: an InLong stream into a typed Delta table, with TubeMQ, Spark and Delta on this machine.

Starts an embedded TubeMQ with two brokers and sends it 336 776 flights, as InLong's DataProxy would: JSON records, 200
to a message, compressed. One record in a thousand is broken. `tubeclient ingest` writes them to a Delta table with a
column for each field, and the broken ones to a table of bad records. The job is stopped halfway and started again. Then
both tables are read back without Spark and compared with what was sent. Exit code 0 only if each record is in one of
them once.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from rich.console import Console

from jobs.flights import SCHEMA, STREAM, flight_records, flight_table, is_cut, packs_of
from offsets_store import OffsetsTable
from tubeclient import ClientSettings, OffsetLookup, PartitionKey, Producer, fetch_view, reader_groups_of
from tubeclient.keys import INDEX_ENTRY_BYTES

if TYPE_CHECKING:
    import pyarrow

OUTPUT = Path(__file__).resolve().parents[1] / "demo-output"
TOPIC, GROUP, BROKERS = "demo", "demo_etl", 2
TOPIC_WORDS = f"--topic={TOPIC}:2:2", f"--brokers={BROKERS}"
SHOW = (
    f".venv/bin/tubeclient server --data-dir=demo-output/tubemq {' '.join(TOPIC_WORDS)} --master-port=8715"
    " --master-web-port=8080 & .venv/bin/tubeclient ui --master-servers=127.0.0.1"
)
"""A line for a shell, after the demonstration."""
MESSAGES_PER_ROUND = 450
STOP_AFTER_ROWS = 60_000
_SLICE = 200
"""Messages handed to the producer in one call."""
_WAIT_SECONDS = 600.0
_END_SECONDS = 90.0

console = Console(highlight=False)
began = time.monotonic()


def say(text: str) -> None:
    """Print a line with the seconds since the start."""
    console.print(f"[dim]{time.monotonic() - began:6.1f} s[/dim]  {text}", soft_wrap=True)


class Check(NamedTuple):
    """One statement, and whether it holds."""

    statement: str
    holds: bool
    detail: str


class DemoError(RuntimeError):
    """The demonstration cannot continue; the text says why."""


class Child:
    """A Python program with its output in demo-output/NAME.log; it is ended with the block, by force if needed."""

    def __init__(self, name: str, arguments: list[str]) -> None:
        self.log = OUTPUT / f"{name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tubeclient_cli.app", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Only this program gets Ctrl-C; it then ends its children one by one.
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Wait until `done` is true. DemoError if the process ends before that, or if it takes too long."""
        give_up = time.monotonic() + _WAIT_SECONDS
        while not done():
            if self.process.poll() is not None and not done():
                raise DemoError(f"{self.log.stem} ended with {self.process.returncode} before {what}; see {self.log}")
            if time.monotonic() >= give_up:
                raise DemoError(f"{what} did not come within {_WAIT_SECONDS:.0f} s; see {self.log}")
            time.sleep(0.2)


class Job(Child):
    """One run of `tubeclient ingest`, whose rounds are printed as they come."""

    def __init__(self, addresses: dict[str, Any], run: int, trigger: str) -> None:
        self._run = run
        self._seen_events = 0
        flags = {
            "master-servers": addresses["master"],
            "consumer-group": GROUP,
            "topic": TOPIC,
            "target": OUTPUT / "table",
            "offsets-table": OUTPUT / "offsets",
            "source-count": 2,
            "bad-records": OUTPUT / "bad_records",
            "format": "json",
            "schema": SCHEMA,
            "time-zone": "UTC",
            "max-offsets-per-trigger": MESSAGES_PER_ROUND,
            "trigger": trigger,
            "spark-master": "local[2]",
        }
        options = [f"masterWebPort={addresses['masterWebPort']}", "payload=inlong", f"filters={STREAM}"]
        # A run ends before it is worth the time to compile Spark's code a second time, better.
        compiler = "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1"
        confs = ["spark.driver.memory=1g", "spark.sql.shuffle.partitions=2", compiler]
        words = [f"--{name}={value}" for name, value in flags.items()]
        words += [f"--option={option}" for option in options] + [f"--conf={conf}" for conf in confs]
        super().__init__(f"ingest-{run}", ["ingest", "--json", *words])

    def _events(self) -> list[dict[str, Any]]:
        # A line that is still being written has no line end, and Spark's warnings are no JSON.
        lines = self.output().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line[0] == "{" and line[-1] == "\n"]

    def rows(self) -> int:
        """How many rows the run has written; prints what is new."""
        events = [event for event in self._events() if event["event"] == "round"]
        for event in events[self._seen_events :]:
            behind = "unknown" if event["rows_behind"] is None else f"at most {event['rows_behind']:,}"
            say(
                f"  commit {event['sequence']}: {event['rows']:,} rows and {event['bad_rows']:,} bad records; messages"
                f" behind: {behind}"
            )
        self._seen_events = len(events)
        return int(events[-1]["total_rows"]) if events else 0

    def wait_for_end(self) -> int:
        """Wait until it has ended with 0; returns the rows that it has written."""
        self.wait("its end", lambda: (self.process.poll() == 0, self.rows())[0])
        end = self._events()[-1]
        say(f"run {self._run}: {end['event']}, {end['rows']:,} rows in {end['rounds']} rounds")
        return self.rows()


def send(master: str, packs: list[bytes]) -> float:
    """Send all packs, as InLong's DataProxy does; returns the seconds until the last one is acknowledged."""
    started = time.monotonic()
    with Producer(ClientSettings((master,))) as producer:
        producer.publish([TOPIC])
        for first in range(0, len(packs), _SLICE):
            some = packs[first : first + _SLICE]
            for result in producer.submit_many(TOPIC, some, tag=STREAM, attributes={"msgEnType": "2"}):
                try:
                    result.result(timeout=_WAIT_SECONDS)
                except Exception as error:
                    raise DemoError(f"sending failed: {error}") from error
    return time.monotonic() - started


def demonstrate() -> list[Check]:
    """Run everything and return the checks."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    ready = OUTPUT / "ready.json"
    words = ["server", f"--data-dir={OUTPUT / 'tubemq'}", *TOPIC_WORDS, f"--ready-file={ready}"]
    with Child("tubemq", words) as tubemq, ThreadPoolExecutor(1) as sender:
        tubemq.wait("it was ready", ready.exists)
        addresses = json.loads(ready.read_text())
        say(f"embedded TubeMQ: {BROKERS} brokers, topic {TOPIC} with 2 stores of 2 partitions on each")
        with Job(addresses, 1, "1s") as job:
            say("`tubeclient ingest`")
            records = flight_records()
            packs = list(packs_of(records))
            say(
                f"sending {len(records):,} flights, {sum(map(len, records)) / 1e6:.0f} MB of JSON, in {len(packs):,}"
                f" InLong packs of {sum(map(len, packs)) / 1e6:.0f} MB"
            )
            sent: Future[float] = sender.submit(send, addresses["master"], packs)
            job.wait("it was in the group", lambda: "begins " in job.output())

            def far_enough() -> bool:
                if sent.done():
                    sent.result()  # raises what went wrong
                return job.rows() >= STOP_AFTER_ROWS

            job.wait("it was halfway", far_enough)
            say("SIGINT to the job, which ends after the running round")
            job.process.send_signal(signal.SIGINT)
            written = [job.wait_for_end()]
        say(f"sent {len(packs):,} messages, {len(packs) / sent.result(_WAIT_SECONDS):,.0f} a second")

        with Job(addresses, 2, "available-now") as job:
            say("`tubeclient ingest` again")
            written.append(job.wait_for_end())

        ends, stored = broker_ends(addresses)

    broken = {seq: record for seq, record in enumerate(records) if is_cut(seq)}
    return [
        Check("both runs wrote rows", all(written), " and ".join(f"{rows:,}" for rows in written)),
        *prove_rows(OUTPUT / "table", OUTPUT / "bad_records", flight_table(), broken, stored),
        Check(
            "the offsets table ends where the brokers end",
            OffsetsTable(str(OUTPUT / "offsets")).positions(GROUP, [TOPIC]) == ends,
            f"{len(ends)} partitions",
        ),
    ]


def broker_ends(addresses: dict[str, Any]) -> tuple[dict[PartitionKey, int], int]:
    """Where each partition ends, and how many messages the brokers hold."""
    groups = reader_groups_of("demo_proof")
    settings = ClientSettings((addresses["master"],), master_web_port=addresses["masterWebPort"])
    view = fetch_view(settings, [TOPIC], groups)
    with contextlib.closing(OffsetLookup(settings, groups)) as lookup:
        bounds = lookup.bounds(view)
    stored = sum(of_store.max_offset // INDEX_ENTRY_BYTES for of_store in bounds.values())
    return {key: bounds[key.store].max_offset for key in view.partitions()}, stored


def prove_rows(
    table: Path, bad_records: Path, flights: pyarrow.Table, broken: dict[int, bytes], stored: int
) -> list[Check]:
    """Compare both tables, read without Spark, with the flights that were sent and with the number of messages that the
    brokers hold. `broken` are the records that no parser takes, by the number of their flight.

    The brokers may hold a message twice: a producer sends it again if no answer came in time. Then its records are
    there twice.
    """
    import pyarrow.compute as pc

    rows, bad = read(table), read(bad_records)
    columns = [
        [*pc.struct_field(rows["tubemq"], name).to_pylist(), *bad[name].to_pylist()]
        for name in ("partitionKey", "messageId", "recordIndex")
    ]
    # Ids are unique within a store, not within a partition.
    keys = [PartitionKey.parse(key).store for key in columns[0]]
    places = [(*key, message, index) for key, (_, message, index) in zip(keys, zip(*columns, strict=True), strict=True)]
    messages = {place[:-1] for place in places}

    typed = rows.drop_columns("tubemq").cast(flights.schema)
    numbers = sorted(pc.unique(typed["seq"]).to_pylist())
    good = sorted(set(flights["seq"].to_pylist()) - broken.keys())
    as_sent = typed.equals(flights.take(pc.index_in(typed["seq"], flights["seq"])))
    found_bad = set(bad["value"].to_pylist())
    return [
        Check(
            "the messages that the brokers hold, and no others",
            len(messages) == stored,
            f"{len(messages):,} of {stored:,}",
        ),
        Check(
            "each record once, in the table or among the bad records",
            len(set(places)) == len(places),
            f"{len(rows):,} + {len(bad):,} records, {len(set(places)):,} places in messages",
        ),
        Check(
            "each good flight is in the table, typed, with the values sent",
            as_sent and numbers == good,
            f"{len(numbers):,} of {len(good):,} flights, {typed.num_columns} columns",
        ),
        Check(
            "each broken record is among the bad records, with the bytes sent",
            found_bad == set(broken.values()),
            f"{len(found_bad):,} of {len(broken):,}",
        ),
    ]


def read(table: Path) -> pyarrow.Table:
    """All rows of a Delta table."""
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    return pa.table(QueryBuilder().register("found", DeltaTable(str(table))).execute("SELECT * FROM found").read_all())


def main() -> int:
    """Run the demonstration; returns the exit code."""
    # Like Ctrl-C, so that the children end too: they are in sessions of their own.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        checks = demonstrate()
    except DemoError as error:
        console.print(f"[bold red]demo: {error}[/bold red]", soft_wrap=True)
        return 1
    console.print("\nRead back without Spark:")
    for check in checks:
        mark = "[green]yes[/green]" if check.holds else "[bold red]NO [/bold red]"
        console.print(f"  {mark}  {check.statement} ({check.detail})", soft_wrap=True)
    proven = all(check.holds for check in checks)
    verdict = "[bold green]proven[/bold green]" if proven else "[bold red]NOT proven[/bold red]"
    console.print(f"Each record once, in {time.monotonic() - began:.0f} s: {verdict}")
    console.print("The tables are in demo-output/. Next: docs/first-rows.md, a topic of your own; docs/ingest.md")
    console.print(f"See the messages in a browser, and try the schema on them: {SHOW}", soft_wrap=True)
    return 0 if proven else 1


if __name__ == "__main__":
    sys.exit(main())
