"""A whole InLong group through the command, which is killed again and again: each record is in one table, once.

Packs are made by Apache's InLongMsg. Manager is away for part of the time, and gives streams new fields.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from tests.apache.fixtures import java_vm
from tests.apache.java_client import JavaVM
from tests.apache.jvm import free_ports
from tests.apache.test_inlong_packs_on_apache import java_build
from tests.exactly_once.job import SPARK
from tests.exactly_once.processes import Child, marked, none_left, send_signal
from tests.spark_home import delta_confs
from tests.tubeclient.inlong_audit import Row, audit_service
from tests.tubeclient.inlong_manager import KEY, USER, group, managing
from tests.tubeclient_ingest.whole_group import AVRO, GROUP, KINDS, Sent, Stream, WholeGroup, ids_of
from tests.waiting import wait_for
from tubeclient_cli.app import app
from tubeclient_ingest.job import Ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["java_vm"]

pytestmark = [pytest.mark.spark, pytest.mark.apache, pytest.mark.timeout(1800)]

# Manager is asked each minute, and may take half of one: longer than a run lives here.
COMMAND: Final = """
from tubeclient.admin.inlong_manager import InlongManager
from tubeclient_ingest.rounds import definitions
definitions._ASK_AGAIN_SECONDS = 1.0
InlongManager.__init__.__kwdefaults__["timeout_ms"] = 2_000
from tubeclient_cli.app import main
main()
"""
MORE: Final = {
    "spark.driver.memory": "1g",
    "spark.speculation": "false",
}
REFUSES, HANGS, HTML, UP = "refuses", "hangs", "html", "up"
END_SECONDS: Final = 400.0


class Manager:
    """InLong's Manager at one address, which is there or not."""

    def __init__(self, streams: dict[str, Stream]) -> None:
        self.definitions = {name: one.definition() for name, one in streams.items()}
        self._streams = streams
        [self._port] = free_ports(1)
        self.address = f"http://127.0.0.1:{self._port}"

    def widen(self, name: str) -> None:
        """A new field, of which records have a value from now on."""
        self._streams[name].is_wide = True
        self.definitions[name] = self._streams[name].definition()

    @contextlib.contextmanager
    def being(self, how: str) -> Iterator[None]:
        ended = threading.Event()

        def answer(request: BaseHTTPRequestHandler) -> None:
            if how == HANGS:
                ended.wait(20)
                return
            request.send_response(200)
            request.end_headers()
            request.wfile.write(b"<html>log in</html>")

        if how == REFUSES:
            yield
            return
        with managing(self.definitions, group(mqResource=GROUP), answer=None if how == UP else answer, port=self._port):
            try:
                yield
            finally:
                ended.set()


class Storm:
    """The job of a group, as a process that is killed with all its children."""

    def __init__(self, folder: Path, given: WholeGroup, more: str) -> None:
        self.lake = folder / "lake"
        self.given = given
        self.settings = folder / "ingest.toml"
        self._folder = folder
        self.runs: list[Child] = []
        self.settings.write_text(
            f"""
            [ingest]
            master-servers = "{given.tube.master_address}"
            consumer-group = "lake"
            inlong-group = "{GROUP}"
            target = "{self.lake}/{{stream}}"
            bad-records = "{self.lake}/_bad"
            max-offsets-per-trigger = 30
            evolve = true
            {more}
            [source]
            masterWebPort = {given.tube.master_web_port}
            [inlong-manager]
            user = "{USER}"
            key = "{KEY}"
            """
        )

    @contextlib.contextmanager
    def run(self, trigger: str) -> Iterator[Child]:
        """Killed in the end, if it still runs, and nothing of it is left."""
        command = [sys.executable, "-c", COMMAND, "ingest", "--settings", str(self.settings), "--trigger", trigger]
        for name, value in {**SPARK, **MORE, **delta_confs()}.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--spark-master", "local[2]"]
        name = f"run-{len(self.runs) + 1}"
        job = Child(name, command, self._folder / f"{name}.log", uuid.uuid4().hex)
        self.runs.append(job)
        with none_left(job.mark):
            try:
                yield job
            finally:
                self._kill(job)
        # It forgets the nodes that were not given back; else their lease has to end.
        self.given.tube.restart_master()

    def _kill(self, job: Child) -> None:
        for process in marked(job.mark):
            send_signal(process, signal.SIGKILL)
        job.kill()

    def commits(self) -> int:
        """To all tables."""
        return sum(1 for _ in self.lake.glob("*/_delta_log/*.json"))

    def until_commits(self, job: Child, more: int) -> None:
        """Return after so many more commits; with some of them records come."""
        before = self.commits()
        seen = [before]

        def done() -> bool:
            assert job.running, job.tail()
            seen.append(self.commits())
            if seen[-1] != seen[-2] and self.given.rng.random() < 0.3:
                self.given.send(1)
            return seen[-1] >= before + more

        wait_for(done, f"{more} commits", seconds=END_SECONDS)

    def finish(self) -> None:
        with self.run("available-now") as job:
            assert job.wait(END_SECONDS) == 0, job.tail()


def where_records_are(storm: Storm, spark: SparkSession) -> tuple[Counter[tuple[str, int]], list[Sent]]:
    """How often the tables have each id of each stream; and the bad records."""
    given, found = storm.given, Counter[tuple[str, int]]()
    every = {**given.streams, **given.unknown}

    def add(one: Sent) -> None:
        kind = every[one.stream].kind if one.stream else ""
        found.update((one.stream, id_) for id_ in ids_of(kind, one.number))

    for name in [*given.streams, "_rest"]:
        table = DeltaTable(str(storm.lake / name))
        if name == "_rest" or given.streams[name].kind == "raw":
            for row in table.to_pyarrow_table(columns=["inlongStreamId", "value"]).to_pylist():
                add(given.sent[row["inlongStreamId"] or "", row["value"]])
            continue
        for row in table.to_pyarrow_table().to_pylist():
            found[name, row["id"]] += 1
            assert row.get("more") in (None, f"y{row['id']}"), row
    rows = Ingest.from_file(spark, storm.settings).bad_records().where("state = 'bad'")
    bad = [given.sent[row.inlongStreamId or "", bytes(row.value)] for row in rows.collect()]
    for one in bad:
        add(one)
    return found, bad


def check(storm: Storm, spark: SparkSession) -> None:
    given = storm.given
    every = {**given.streams, **given.unknown}
    found, bad = where_records_are(storm, spark)
    sent = [
        (one.stream, id_)
        for one in given.sent.values()
        for id_ in ids_of(every[one.stream].kind if one.stream else "", one.number)
    ]
    assert {key: count for key, count in found.items() if count != 1} == {}
    assert found.keys() ^ set(sent) == set()
    # A record of csv is bad as long as Manager, as the job knows it, says another number of fields.
    others = {one for one in bad if not one.is_bad}
    assert {given.streams[one.stream].kind for one in others} <= {"csv"}
    assert {one for one in given.sent.values() if one.is_bad} == set(bad) - others
    # The counts are of the records that are there, by table and minute.
    of_bad = Counter((given.table_of(one), one.minute_ms) for one in bad)
    counts: Counter[tuple[str, int | None]] = Counter()
    counts_bad: Counter[tuple[str, int | None]] = Counter()
    for row in DeltaTable(str(storm.lake / "_counts")).to_pyarrow_table().to_pylist():
        key = row["stream"], row["minute"] and int(row["minute"].timestamp() * 1000)
        assert row["received"] == row["written"] + row["bad"]
        counts[key] += row["received"]
        counts_bad[key] += row["bad"]
    assert counts == {(name, at): n for name, of in given.minutes().items() for at, n in of.items()}
    assert +counts_bad == of_bad


def check_audit(storm: Storm) -> None:
    """Audit heard of all records from DataProxy, and `tubeclient audit` says that all arrived."""
    sent = Counter((one.stream, one.minute_ms) for one in storm.given.sent.values() if one.stream)
    rows = [
        Row(0, "dataproxy", 0, packet, at or 0, GROUP, name, "6", "-1", count, 0)
        for packet, ((name, at), count) in enumerate(sent.items())
    ]
    with audit_service(rows) as (url, _):
        command = ["audit", "--settings", str(storm.settings), "--audit", url, "--json"]
        done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    hours = json.loads(done.stdout)["hours"]
    assert sum(one["sent"] or 0 for one in hours) == sum(sent.values())
    assert {(one["missing"], one["state"]) for one in hours} == {(0, "complete")}


@pytest.fixture
def tube(tmp_path: Path) -> Iterator[EmbeddedTubeMQ]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig(GROUP, 2, 1)]) as running:
        yield running


def made(tube: EmbeddedTubeMQ, java: JavaVM, rng: random.Random, streams: list[Stream]) -> WholeGroup:
    def pack(groups: Any) -> bytes:
        return java_build(java, groups, rng.choice((1, 2, 3)), rng.random() < 0.5)

    unknown = {name: Stream(name, "") for name in ("nobody", "nowhere")}
    return WholeGroup(tube, rng, pack, {one.name: one for one in streams}, unknown)


def test_twenty_streams_over_kills(
    delta_spark: SparkSession, tube: EmbeddedTubeMQ, java_vm: JavaVM, tmp_path: Path
) -> None:
    """Each record of twenty streams is in one table once, wherever the job dies."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kinds = [*KINDS] * 4
    streams = [Stream(f"{kind}_{n}", kind) for n, kind in enumerate(kinds[:20])]
    given = made(tube, java_vm, rng, streams)
    manager = Manager(given.streams)
    storm = Storm(tmp_path, given, f'inlong-manager = "{manager.address}"')
    typed = [one.name for one in streams if one.kind != "raw"]
    given.send(40)
    # The first one dies when most tables are made, and one or two have rows.
    for how in [UP, *rng.sample([UP, REFUSES, HANGS, HTML], 4)]:
        with storm.run("0s") as job:
            with manager.being(UP if how == HTML else how):
                storm.until_commits(job, rng.randrange(1, 16) if len(storm.runs) > 1 else 24)
                for name in rng.sample(typed, 2):
                    manager.widen(name)
                given.send(2)
            with manager.being(how):
                storm.until_commits(job, rng.randrange(1, 8))
                time.sleep(rng.uniform(0, 0.3))
    given.send(10)
    with manager.being(UP):
        storm.finish()
    check(storm, delta_spark)
    check_audit(storm)


def test_avro_streams_by_their_files(
    delta_spark: SparkSession, tube: EmbeddedTubeMQ, java_vm: JavaVM, tmp_path: Path
) -> None:
    """Manager does not say what records of Avro are."""
    rng = random.Random(random.SystemRandom().randrange(1 << 32))
    streams = [Stream(f"avro_{n}", "avro") for n in range(2)]
    for one in streams:
        (tmp_path / f"{one.name}.avsc").write_text(json.dumps(AVRO))
    given = made(tube, java_vm, rng, streams)
    storm = Storm(tmp_path, given, f'format = "avro"\nschema = "{tmp_path}/{{stream}}.avsc"')
    given.send(60)
    for _ in range(2):
        with storm.run("0s") as job:
            storm.until_commits(job, rng.randrange(1, 12))
        given.send(5)
    storm.finish()
    check(storm, delta_spark)
    check_audit(storm)
