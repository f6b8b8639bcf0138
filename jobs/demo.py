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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from jobs.flights import SCHEMA, STREAM, flight_records, flight_table, is_cut, packs_of
from offsets_store import OffsetsTable
from tubeclient import ClientSettings, OffsetLookup, PartitionKey, Producer, fetch_view, reader_groups_of
from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_STORE_PARTITIONS

if TYPE_CHECKING:
    import pyarrow

OUTPUT = Path(__file__).resolve().parents[1] / "demo-output"
TOPIC, GROUP, BROKERS = "demo", "demo_etl", 2
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


@contextlib.contextmanager
def process(name: str, arguments: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a Python program with its output in demo-output/NAME.log; it is ended when the block is left, by force if
    needed."""
    with (OUTPUT / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Only this program gets Ctrl-C; it then ends its children one by one.
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        )
        try:
            yield child
        finally:
            if child.poll() is None:
                child.terminate()
                try:
                    child.wait(_END_SECONDS)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait(10)


def wait_for(what: str, done: Callable[[], bool], child: subprocess.Popen[bytes], name: str) -> None:
    """Wait until `done` is true. DemoError if the process ends before that, or if it takes too long."""
    give_up = time.monotonic() + _WAIT_SECONDS
    while not done():
        if child.poll() is not None and not done():
            raise DemoError(f"{name} ended with {child.returncode} before {what}; see {OUTPUT / name}.log")
        if time.monotonic() >= give_up:
            raise DemoError(f"{what} did not come within {_WAIT_SECONDS:.0f} s; see {OUTPUT / name}.log")
        time.sleep(0.2)


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


def ingest_arguments(addresses: dict[str, Any], trigger: str) -> list[str]:
    """The command line of one run of the job, which prints its events as JSON."""
    settings = {
        "--master-servers": addresses["master"],
        "--consumer-group": GROUP,
        "--topic": TOPIC,
        "--target": str(OUTPUT / "table"),
        "--offsets-table": str(OUTPUT / "offsets"),
        "--source-count": "2",
        "--bad-records": str(OUTPUT / "bad_records"),
        "--format": "json",
        "--schema": SCHEMA,
        "--time-zone": "UTC",
        "--max-offsets-per-trigger": str(MESSAGES_PER_ROUND),
        "--trigger": trigger,
        "--spark-master": "local[2]",
    }
    flags = [part for pair in settings.items() for part in pair]
    confs = ["spark.driver.memory=1g", "spark.sql.shuffle.partitions=2"]
    # A run ends before it is worth the time to compile Spark's code a second time, better.
    confs.append("spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1")
    flags += [part for conf in confs for part in ("--conf", conf)]
    options = [f"masterWebPort={addresses['masterWebPort']}", "payload=inlong", f"filters={STREAM}"]
    flags += [part for option in options for part in ("--option", option)]
    return ["-m", "tubeclient_cli.app", "ingest", "--json", *flags]


def events_of(run: int) -> list[dict[str, Any]]:
    """The events that a run of `tubeclient ingest --json` has printed."""
    # A line that is still being written has no line end, and Spark's warnings are no JSON.
    lines = log_of(f"ingest-{run}").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line[0] == "{" and line[-1] == "\n"]


def rounds_of(run: int) -> list[dict[str, Any]]:
    """Those of its rounds."""
    return [event for event in events_of(run) if event["event"] == "round"]


def end_of(run: int) -> str:
    """What its last event says."""
    event = events_of(run)[-1]
    return f"{event['event']}, {event['rows']:,} rows in {event['rounds']} rounds"


def log_of(name: str) -> str:
    """What a process printed."""
    return (OUTPUT / f"{name}.log").read_text(errors="replace")


class Rounds:
    """Prints the rounds of a run as they come."""

    def __init__(self, run: int) -> None:
        self._run = run
        self._told = 0

    def rows(self) -> int:
        """How many rows the run has written; prints what is new."""
        events = rounds_of(self._run)
        for event in events[self._told :]:
            behind = "unknown" if event["rows_behind"] is None else f"at most {event['rows_behind']:,}"
            say(
                f"  commit {event['sequence']}: {event['rows']:,} records, {event['bad_rows']:,} of them bad; messages"
                f" behind: {behind}"
            )
        self._told = len(events)
        return events[-1]["total_rows"] if events else 0

    def ended(self, job: subprocess.Popen[bytes]) -> Callable[[], bool]:
        """Says whether the run has ended with 0; prints its rounds."""
        return lambda: (job.poll() == 0, self.rows())[0]


def demonstrate() -> list[Check]:
    """Run everything and return the checks."""
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    ready = OUTPUT / "ready.json"
    served = ["-m", "tubeclient_cli.app", "server", "--data-dir", str(OUTPUT / "tubemq"), "--topic", f"{TOPIC}:2:2"]
    served += ["--brokers", str(BROKERS), "--ready-file", str(ready)]
    with process("tubemq", served) as tubemq, ThreadPoolExecutor(1) as sender:
        wait_for("it was ready", ready.exists, tubemq, "tubemq")
        addresses = json.loads(ready.read_text())
        say(f"embedded TubeMQ: {BROKERS} brokers, topic {TOPIC} with 2 stores of 2 partitions on each")
        with process("ingest-1", ingest_arguments(addresses, "1s")) as job:
            say("`tubeclient ingest`")
            records = flight_records()
            packs = list(packs_of(records))
            say(
                f"sending {len(records):,} flights, {sum(map(len, records)) / 1e6:.0f} MB of JSON, in {len(packs):,}"
                f" InLong packs of {sum(map(len, packs)) / 1e6:.0f} MB"
            )
            sent: Future[float] = sender.submit(send, addresses["master"], packs)
            wait_for("it was in the group", lambda: "begins " in log_of("ingest-1"), job, "ingest-1")
            first = Rounds(1)

            def far_enough() -> bool:
                if sent.done():
                    sent.result()  # raises what went wrong
                return first.rows() >= STOP_AFTER_ROWS

            wait_for("it was halfway", far_enough, job, "ingest-1")
            say("SIGINT to the job, which ends after the running round")
            job.send_signal(signal.SIGINT)
            wait_for("its end", first.ended(job), job, "ingest-1")
        say(f"run 1: {end_of(1)}")
        say(f"sent {len(packs):,} messages, {len(packs) / sent.result(_WAIT_SECONDS):,.0f} a second")

        with process("ingest-2", ingest_arguments(addresses, "available-now")) as job:
            say("`tubeclient ingest` again")
            second = Rounds(2)
            wait_for("its end", second.ended(job), job, "ingest-2")
        say(f"run 2: {end_of(2)}")

        ends, held = broker_ends(addresses)

    runs = [rounds_of(run) for run in (1, 2)]
    both_ran = all(events and events[-1]["total_rows"] > 0 for events in runs)
    share = " and ".join(f"{events[-1]['total_rows'] if events else 0:,}" for events in runs)
    broken = {seq: record for seq, record in enumerate(records) if is_cut(seq)}
    return [
        Check("both runs wrote rows", both_ran, share),
        *prove_rows(OUTPUT / "table", OUTPUT / "bad_records", flight_table(), broken, held),
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
    held = sum(one.max_offset // INDEX_ENTRY_BYTES for one in bounds.values())
    return {key: bounds[key.store].max_offset for key in view.partitions()}, held


def prove_rows(
    table: Path, bad_records: Path, flights: pyarrow.Table, broken: dict[int, bytes], held: int
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
    places = [(store_of(key), message, index) for key, message, index in zip(*columns, strict=True)]
    messages = {place[:-1] for place in places}

    typed = rows.drop_columns("tubemq").cast(flights.schema)
    numbers = sorted(pc.unique(typed["seq"]).to_pylist())
    good = sorted(set(flights["seq"].to_pylist()) - broken.keys())
    as_sent = typed.equals(flights.take(pc.index_in(typed["seq"], flights["seq"])))
    found_bad = set(bad["value"].to_pylist())
    return [
        Check(
            "the messages that the brokers hold, and no others",
            len(messages) == held,
            f"{len(messages):,} of {held:,}",
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


def store_of(partition_key: str) -> tuple[str, str, int]:
    """Broker, topic and store of a partition."""
    broker, topic, partition = partition_key.split(":")
    return broker, topic, int(partition) // MAX_STORE_PARTITIONS


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
    return 0 if proven else 1


if __name__ == "__main__":
    sys.exit(main())
