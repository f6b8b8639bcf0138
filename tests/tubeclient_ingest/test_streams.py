"""A whole InLong group in one job: a table for each stream, and one that counts."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.lake import Killed, each_commit
from tubeclient.errors import ConfigurationError
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient_ingest import run
from tubeclient_ingest.commits.history import SinkState
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.commits.stream_ends import LeftBehind, StreamsLeftBehind, ToRest
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.rounds.retrying import Retried
from tubeclient_ingest.rounds.sink import Sink
from tubeclient_ingest.rounds.writing import Writer
from tubeclient_ingest.run import Event, IngestSummary, Round
from tubeclient_ingest.settings.group_settings import takes
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.load_settings import load_settings
from tubeclient_ingest.settings.table_by import StreamId
from tubeclient_ingest.tables.spark_errors import LogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_MS = 60_000
BEGAN_MS = 1_795_000_020_000
STREAMS = ("orders", "clicks", "views")


class Shop:
    """A group of three streams, whose records are numbered."""

    def __init__(self, tube: EmbeddedTubeMQ, spark: SparkSession, folder: Path) -> None:
        self.tube = tube
        self.spark = spark
        self.lake = folder / "lake"
        self.sent: Counter[str] = Counter()
        self.bad: Counter[str] = Counter()
        self.left: list[LeftBehind] = []
        self.to_rest: list[ToRest] = []
        self.settings = IngestSettings(
            master_servers=tube.master_address,
            consumer_group="lake",
            inlong_group="shop",
            target=f"{self.lake}/{{stream}}",
            source_count=2,
            source_options={"masterWebPort": str(tube.master_web_port)},
        )

    def send(self, *streams: str, count: int = 10, bad: int = 0) -> None:
        """So many records of each stream, of one minute each; the first ones are no JSON."""
        for number, stream in enumerate(streams):
            first = self.sent[stream]
            records = [b'{"id": %d}' % n if n - first >= bad else b"{%d" % n for n in range(first, first + count)]
            self.sent[stream] += count
            self.bad[stream] += bad
            attributes = {"groupId": "shop", "streamId": stream, "dt": str(BEGAN_MS + first * MINUTE_MS)}
            pack = encode_pack([RecordGroup(attributes, records)], made_ms=BEGAN_MS)
            self.tube.load("shop", [NewMessage(10_000 * (number % 2), pack)])

    def run(self, **changes: Any) -> IngestSummary:
        def see(event: Event) -> None:
            if isinstance(event, LeftBehind):
                self.left.append(event)
            if isinstance(event, ToRest):
                self.to_rest.append(event)

        return self.job(**changes).run(see)

    def job(self, **changes: Any) -> Ingest:
        return Ingest(self.spark, settings=replace(self.settings, **changes))

    def numbers(self, stream: str) -> list[int]:
        """Of a stream's records in a table of raw ones."""
        rows = DeltaTable(f"{self.lake}/{stream}").to_pyarrow_table(columns=["value"]).column("value").to_pylist()
        return sorted(int(one.decode().strip('{"id: }')) for one in rows)

    def ids(self, stream: str) -> list[int]:
        """Of a stream's records in a table with columns."""
        return sorted(DeltaTable(f"{self.lake}/{stream}").to_pyarrow_table(columns=["id"]).column("id").to_pylist())

    def counts(self) -> dict[str, tuple[int, int, int]]:
        """Received, written and bad records of each stream, by the counts table."""
        rows = DeltaTable(f"{self.lake}/_counts").to_pyarrow_table().to_pylist()
        found: dict[str, tuple[int, int, int]] = {}
        for row in rows:
            before = found.get(row["stream"], (0, 0, 0))
            new = row["received"], row["written"], row["bad"]
            found[row["stream"]] = tuple(map(sum, zip(before, new, strict=True)))  # type: ignore[assignment]
        return found

    def check(self, streams: Sequence[str] = STREAMS) -> None:
        """Each record of the streams is in its table once, and is counted once."""
        for stream in streams:
            assert self.numbers(stream) == list(range(self.sent[stream])), stream
        assert self.counts() == {one: (self.sent[one], self.sent[one], 0) for one in streams}


@pytest.fixture
def shop(tmp_path: Path, delta_spark: SparkSession) -> Iterator[Shop]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("shop", 2, 1)]) as tube:
        yield Shop(tube, delta_spark, tmp_path)


def test_each_stream_has_its_table_and_its_counts(shop: Shop) -> None:
    shop.send("orders", "clicks")
    assert shop.run().rows == 20
    shop.send("clicks", "views", count=5)  # one that is new, and one that rests
    assert shop.run().rows == 10
    shop.check()
    assert shop.run().rows == 0
    minutes = {row["minute"] for row in DeltaTable(f"{shop.lake}/_counts").to_pyarrow_table().to_pylist()}
    assert len(minutes) == 2


@pytest.mark.merge("3-False]")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_death_between_two_tables(shop: Shop, number: int, after: bool) -> None:
    """The next run writes the missing tables of a round that died between two of them."""
    streams = ("orders", "clicks")
    shop.send(*streams)
    shop.run()
    shop.send(*streams)
    left = [number]

    class Killed(BaseException):
        pass

    def fail(_: Any, __: object, commit: Callable[[], None]) -> None:
        left[0] -= 1
        if left[0] > 0 or after:
            commit()
        if left[0] <= 0:
            raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tubeclient_ingest.rounds.stream_tables._AT_ONCE", 1)
        with each_commit(fail), pytest.raises(Killed):
            shop.run()
    shop.send("orders")
    shop.run(max_offsets_per_trigger=2)
    shop.check(streams)


@pytest.mark.merge
def test_refused_stream_stays_behind(shop: Shop) -> None:
    """A stream whose table refuses a record stays behind, and the others go on."""
    typed = {"format": "json", "schema": "id BIGINT"}
    streams = ("orders", "clicks")
    shop.send(*streams)
    shop.run(**typed)
    shop.spark.sql(f"ALTER TABLE delta.`{shop.lake}/clicks` ADD CONSTRAINT few CHECK (id < 10)").collect()
    shop.send(*streams)
    with pytest.raises(
        StreamsLeftBehind, match=r"1 stream could not be written.* clicks: .*bad record in .* few refuses it"
    ):
        shop.run(**typed)
    assert [one.stream for one in shop.left] == ["clicks"]
    assert (shop.ids("clicks"), shop.ids("orders")) == ([*range(10)], [*range(20)])
    shop.spark.sql(f"ALTER TABLE delta.`{shop.lake}/clicks` DROP CONSTRAINT few").collect()
    shop.send(*streams)
    assert shop.run(**typed).rows == 30
    assert [shop.ids(one) for one in streams] == [[*range(30)]] * 2
    assert shop.counts() == dict.fromkeys(streams, (30, 30, 0))


def test_bad_records_of_all_streams(shop: Shop) -> None:
    """Bad records of all streams are in one table, from which a retry reads them."""
    typed = {"format": "json", "schema": "id BIGINT", "bad_records": f"{shop.lake}/_bad"}
    shop.send(*STREAMS, bad=2)
    done = shop.run(**typed)
    assert (done.rows, done.bad_rows) == (24, 6)
    assert shop.counts() == dict.fromkeys(STREAMS, (10, 8, 2))
    job = shop.job(**typed)
    assert job.bad_records().count() == 6
    views, elsewhere = shop.lake / "views", shop.lake.parent / "views"
    views.rename(elsewhere)
    shop.spark.catalog.refreshByPath(str(views))
    with pytest.raises(ConfigurationError, match=r"stream views: there is no table at .*, or leave the stream out"):
        job.bad_records()
    assert shop.job(**typed, streams=("!views",)).bad_records().count() == 4
    elsewhere.rename(views)
    shop.spark.catalog.refreshByPath(str(views))
    # Whoever reads them otherwise can move them. The job goes on where it was.
    single = {**typed, "format_options": {"allowUnquotedFieldNames": "true"}}
    assert shop.job(**single).retry(dry_run=True) == Retried(0, 6)
    shop.send("orders")
    assert shop.run(**typed).rows == 10
    assert shop.ids("orders") == [*range(2, 20)]


def test_undefined_streams_go_to_the_rest(shop: Shop, tmp_path: Path) -> None:
    """Records that no definition covers are in the table for the rest."""
    for stream in ("orders", "clicks"):
        (tmp_path / f"{stream}.ddl").write_text("id BIGINT")
    typed = {"format": "json", "schema": f"{tmp_path}/{{stream}}.ddl"}
    shop.send(*STREAMS)
    other = RecordGroup({"groupId": "other", "streamId": "orders", "dt": "0"}, [b"1"])
    shop.tube.load("shop", [NewMessage(0, encode_pack([other], made_ms=0))])
    shop.run(**typed)
    assert set(shop.to_rest) == {ToRest(None), ToRest("views")}
    assert len(shop.to_rest) == 2
    assert len(DeltaTable(f"{shop.lake}/_rest").to_pyarrow_table()) == 11
    (tmp_path / "views.ddl").write_text("id BIGINT")
    shop.send(*STREAMS)
    shop.run(**typed)
    assert shop.ids("views") == [*range(10, 20)]
    assert len(DeltaTable(f"{shop.lake}/_rest").to_pyarrow_table()) == 11
    assert {name: one[0] for name, one in shop.counts().items()} == {
        "orders": 20,
        "clicks": 20,
        "views": 10,
        "_rest": 11,
    }


def test_retry_beside_undefined_streams(shop: Shop, tmp_path: Path) -> None:
    """A retry works although some of the group's streams have no definition."""
    (tmp_path / "orders.ddl").write_text("id BIGINT")
    typed = {"format": "json", "schema": f"{tmp_path}/{{stream}}.ddl", "bad_records": f"{shop.lake}/_bad"}
    shop.send("orders", "views", bad=1)
    assert shop.run(**typed).bad_rows == 1
    assert shop.job(**typed).retry(dry_run=True) == Retried(0, 1)


def test_chosen_streams(shop: Shop) -> None:
    """A run writes only the streams it chooses, and the others resume where their rows end."""
    shop.send(*STREAMS)
    shop.run()
    shop.send(*STREAMS)
    assert shop.run(streams=("orders",)).rows == 10
    assert shop.run().rows == 20
    shop.check()


@pytest.mark.parametrize("chosen", [None, "latest", '{"default": "earliest"}'])
def test_restored_or_removed_table(shop: Shop, chosen: str | None) -> None:
    """Whatever the settings say of a first run."""
    for _ in range(2):
        shop.send(*STREAMS)
        shop.run()
    shop.spark.sql(f"RESTORE TABLE delta.`{shop.lake}/clicks` TO VERSION AS OF 1").collect()
    shop.send("orders")
    assert shop.run(starting_offsets=chosen).rows == 20
    assert [len(shop.numbers(one)) for one in STREAMS] == [30, 20, 20]
    shop.spark.sql(f"RESTORE TABLE delta.`{shop.lake}/orders` TO VERSION AS OF 0").collect()
    shutil.rmtree(shop.lake / "views")
    assert shop.run(starting_offsets=chosen).rows == 50
    assert [len(shop.numbers(one)) for one in STREAMS] == [30, 20, 20]


@pytest.mark.parametrize("is_killed", [False, True])
def test_original_table_moved_back(shop: Shop, is_killed: bool) -> None:
    """A table that is moved back gets the rows that went to the table in its place."""
    orders, aside = shop.lake / "orders", shop.lake.parent / "orders"
    for _ in range(2):
        shop.send("orders", "clicks")
        shop.run()
    orders.rename(aside)
    shop.send("orders", "clicks")

    def die(table: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        commit()
        if "_counts" in table.where:
            raise Killed

    if is_killed:
        with each_commit(die), pytest.raises(Killed):
            shop.run()
    shop.run()  # fills the new one in two rounds: it has as many commits as the first
    shutil.rmtree(orders)
    aside.rename(orders)
    shop.send("orders")
    assert shop.run().rows == 20
    assert [len(shop.numbers(one)) for one in ("orders", "clicks")] == [40, 30]


def test_streams_that_share_a_catalog_name(shop: Shop) -> None:
    """In a catalog, a stream goes to the rest if another one has its table's name."""
    shop.send("Orders", "_COUNTS")
    shop.spark.sql("CREATE DATABASE one_table")
    try:
        for _ in range(2):
            shop.send("orders", "Orders")
            shop.run(target="one_table.{stream}", evolve=True)
        assert set(shop.to_rest) == {ToRest(None), ToRest("Orders")}
        of_streams = {name: shop.spark.table(f"one_table.{name}") for name in ("orders", "_rest", "_counts")}
        assert of_streams["orders"].select("inlongStreamId", "value").distinct().count() == 20
        assert {row[0] for row in of_streams["orders"].select("inlongStreamId").collect()} == {"orders"}
        assert of_streams["_rest"].count() == 40
        assert "value" not in of_streams["_counts"].columns
    finally:
        shop.spark.sql("DROP DATABASE one_table CASCADE")


def test_ids_that_cannot_be_in_a_path(shop: Shop) -> None:
    """Java's and Python's `$` match before a line end too."""
    ends = [f"orders{end}" for end in ("\n", "\r", "\r\n", "\u0085", "\u2028")]
    others = [*ends, "_delta_log", "_rest", ".orders", "a/../orders", "b" * 201]
    for _ in range(2):
        shop.send("orders", *others)
        shop.run()
        shop.send("orders")
        shop.run()
    assert shop.numbers("orders") == [*range(40)]
    assert sorted(one.name for one in shop.lake.iterdir()) == ["_counts", "_rest", "orders"]
    rest = DeltaTable(f"{shop.lake}/_rest").to_pyarrow_table(columns=["inlongStreamId"]).to_pylist()
    assert Counter(row["inlongStreamId"] for row in rest) == dict.fromkeys(others, 20)
    assert (set(shop.to_rest), shop.left) == ({ToRest(None)}, [])


def test_stream_named_as_a_table_of_deletes(shop: Shop) -> None:
    """A stream with the name of a keyed stream's table of deletes goes to the rest."""
    keyed = {"format": "json", "schema": "id BIGINT, at BIGINT", "key": ("id",), "order_by": "at"}
    shop.send("orders", "orders_deletes")
    shop.run(**keyed)
    assert shop.ids("orders") == [*range(10)]
    assert shop.to_rest == [ToRest("orders_deletes")]
    assert len(DeltaTable(f"{shop.lake}/_rest").to_pyarrow_table()) == 10


@pytest.mark.parametrize("writer", ["tasks", "spark"])
def test_bad_records_after_a_second_try(shop: Shop, writer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the same run, which took the stream's number at both."""
    how = {"format": "json", "schema": "id BIGINT", "bad_records": str(shop.lake.parent / "bad"), "writer": writer}
    shop.send("orders", "views")
    shop.run(**how)
    shop.send("orders", "views", bad=3)
    append, failed = Sink.append, [False]

    def refused(self: Sink, rows: Any, record: SinkRecord, *more: Any) -> SinkState:
        if "orders" in self.where and record.bad and not failed[0]:
            failed[0] = True
            raise LogError("no rights")
        return append(self, rows, record, *more)

    monkeypatch.setattr(Sink, "append", refused)
    monkeypatch.setattr(run, "_ANEW_SECONDS", 1.0)
    job = shop.job(**how, trigger="0s")
    lacked = [0]

    def see(event: Event) -> None:
        if isinstance(event, Round):
            lacked[0] += len(shop.ids("orders")) == 10
            job.stop() if len(shop.ids("orders")) == 17 else shop.send("views")

    job.run(see)
    assert lacked[0]
    bad = job.bad_records().where("state = 'bad'").groupBy("inlongStreamId").count().collect()
    assert {row[0]: row[1] for row in bad} == {"orders": 3, "views": 3}
    assert job.retry(dry_run=True) == Retried(0, 6)


@pytest.mark.merge
def test_a_stream_that_is_left_out_is_caught_up_later(shop: Shop) -> None:
    for _ in range(3):
        shop.send(*STREAMS)
        shop.run(streams=("!views",))
    assert not (shop.lake / "views").exists()
    shop.send(*STREAMS)
    shop.run()
    shop.check()
    for _ in range(2):
        shop.send(*STREAMS)
        shop.run(streams=("orders",))
    shop.run()
    shop.check()


def test_stream_left_behind_in_several_runs(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream that is left behind in a round, and then at starts of runs, catches up when its table opens again."""
    shop.send(*STREAMS)
    shop.run()
    open_table = Writer.open

    def refused(writer: Writer, **how: bool) -> None:
        if writer.settings.target.endswith("/views"):
            raise ConfigurationError("not now")
        open_table(writer, **how)

    with monkeypatch.context() as patched:
        patched.setattr(Writer, "open", refused)
        for _ in range(3):
            shop.send(*STREAMS)
            with pytest.raises(StreamsLeftBehind, match=r"views: .*not now"):
                shop.run()
    shop.send(*STREAMS)
    shop.run()
    shop.check()


def test_a_stream_to_write_must_be_defined(tmp_path: Path) -> None:
    (tmp_path / "orders.ddl").write_text("id BIGINT")
    given: dict[str, Any] = {"master_servers": "m:1", "consumer_group": "g", "inlong_group": "shop"}
    typed: dict[str, Any] = {"format": "json", "schema": f"{tmp_path}/{{stream}}.ddl", "target": "/lake/{stream}"}
    assert takes(load_settings(None, {**given, **typed, "streams": ("orders",)}), StreamId("orders"))
    with pytest.raises(ConfigurationError, match=r"streams names odrers, but there is no .*/odrers.ddl"):
        load_settings(None, {**given, **typed, "streams": ("odrers",)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"target": "/lake/shop"}, r"target is /lake/shop for all streams; add \{stream\}"),
        ({"table_by": "topic"}, "inlong-group and table-by both decide which table a record goes to"),
        ({"source_options": {"Payload": "raw"}}, "payload is raw, but a job with inlong-group needs InLong's packs"),
        ({"format": "json", "schema": "/nowhere/{stream}.ddl"}, r"schema is /nowhere/\{stream\}.ddl, but there is no"),
        ({"format": "jsn", "schema": "/nowhere/{stream}.ddl"}, "format is 'jsn'; use one of raw"),
        (
            {"inlong_group": None, "topics": ("t",), "target": "/t/{stream}"},
            r"\{stream\} in target needs inlong-group",
        ),
        ({"streams": ("a/b",)}, "stream 'a/b' cannot name a table"),
        ({"inlong_group": None, "topics": (), "target": "/t"}, "these settings are missing: topics"),
        (
            {"inlong_group": None, "topics": ("t",), "target": "/t", "streams": ("a",)},
            "streams needs inlong-group",
        ),
    ],
)
def test_settings_that_contradict(changes: dict[str, Any], message: str) -> None:
    """Loading refuses settings that contradict each other."""
    given = {"master_servers": "m:1", "consumer_group": "g", "inlong_group": "shop", "target": "/lake/{stream}"}
    with pytest.raises(ConfigurationError, match=message):
        load_settings(None, {**given, **changes})


def test_retry_beside_part_of_a_round(shop: Shop) -> None:
    """It takes the number that the files were written for. They are written anew, and of the same partitions."""

    def put(store: int, number: int) -> None:
        pack = encode_pack(
            [RecordGroup({"groupId": "shop", "streamId": "clicks", "dt": str(BEGAN_MS)}, [str(number).encode()])],
            made_ms=BEGAN_MS,
        )
        shop.tube.load("shop", [NewMessage(10_000 * store, pack)])

    put(0, 100)
    put(1, 101)
    shop.run()
    put(0, 1)

    class Killed(BaseException):
        pass

    def die(table: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        commit()
        if record is not None and "clicks" in table.where:
            raise Killed

    with each_commit(die), pytest.raises(Killed):
        shop.run()
    put(1, 2)
    done: list[int] = []

    def around(table: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        if record is not None and record.counts and "clicks" in table.where and not done:
            done.append(1)
            commit_as_a_retry(f"{shop.lake}/clicks")
        commit()

    with each_commit(around):
        shop.run()
    assert done
    assert shop.numbers("clicks") == [1, 2, 100, 101]


def commit_as_a_retry(place: str) -> None:
    """What `retry` commits: the group's next number, with the ends as they are."""
    table = DeltaTable(place)
    before = SinkRecord.parse(table.history(1)[0]["userMetadata"])
    assert before is not None
    number = before.sequence + 1
    record = replace(before, run_id="retry", sequence=number, bad=1, retry_of=before.round, based_on=table.version())
    properties = CommitProperties(
        custom_metadata={"userMetadata": record.to_json()},
        app_transactions=[Transaction(record.transaction_id, number)],
    )
    table.create_write_transaction([], "append", table.schema(), [], commit_properties=properties)
