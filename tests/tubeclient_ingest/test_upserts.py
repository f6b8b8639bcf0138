"""A target with the newest state of each key: it is what the changes say, however they come."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from embedded_tubemq.storage.store import NewMessage
from spark_source.options.table_uris import quoted, table_of_deletes
from spark_source.typed.columns import ARRIVAL
from spark_source.typed.format_settings import FormatSettings
from tests.tubeclient_ingest.bench import KEYS, Bench, Seen
from tests.tubeclient_ingest.lake import KEY, Lake, cut_history, killed_at
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError
from tubeclient.keys import INDEX_ENTRY_BYTES
from tubeclient_ingest.commits.beginning import OvertakenRun
from tubeclient_ingest.job import IngestFailed
from tubeclient_ingest.rounds import writing
from tubeclient_ingest.rounds.retrying import Retried, retry
from tubeclient_ingest.rounds.upserts import Upserts
from tubeclient_ingest.run import Round
from tubeclient_ingest.settings.ingest_settings import IngestSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

STRICT = "id BIGINT, v BIGINT NOT NULL"
LOOSE = "id BIGINT, v BIGINT"


class Change(NamedTuple):
    """What happened to a row."""

    key: int
    time: int
    position: int
    is_delete: bool = False
    is_bad: bool = False
    """Whether only `LOOSE` takes it: v is null."""

    def body(self, number: int) -> bytes:
        row: dict[str, int | None] = {"id": self.key, "v": number}
        if self.is_bad:
            row["v"] = None
        image = {"op": "d", "before": row} if self.is_delete else {"op": "u", "after": row}
        return json.dumps({**image, "source": {"ts_ms": self.time, "pos": 10 * self.time + self.position}}).encode()


class Keyed(Lake):
    """A lake whose records are changes."""

    def __init__(self, spark: SparkSession, folder: Path, changes: Sequence[Change]) -> None:
        super().__init__(spark, folder)
        self.changes = changes
        self.take(LOOSE)
        self.start()  # the table takes what a later schema does
        self.take(STRICT)

    def take(self, schema: str) -> None:
        wanted = self.settings(format="debezium-json", schema=schema, key=("ID",))
        self.record_format = wanted.records.record_format()

    def records(self, start: int, end: int) -> DataFrame:
        frame = super().records(start, end)
        bodies = {number: one.body(number) for number, one in enumerate(self.changes[start:end], start)}
        of_numbers = self.spark.createDataFrame([*bodies.items()], "id BIGINT, body BINARY").collect()
        assert len(of_numbers) == end - start
        rows = [{**row.asDict(), "value": bodies[row.messageId], ARRIVAL: row.messageId} for row in frame.collect()]
        return self.spark.createDataFrame(rows, frame.schema.add(ARRIVAL, "long"))

    def end(self) -> int:
        return self.start().writer.sink.read_state().ends.get(KEY, 0) // INDEX_ENTRY_BYTES

    def state(self) -> dict[int, int | None]:
        rows = self.spark.table(f"delta.`{self.target}`").select("id", "v").collect()
        assert len({row.id for row in rows}) == len(rows)
        return {row.id: row.v for row in rows}

    def wanted(self, end: int, *, with_bad: bool) -> dict[int, int | None]:
        """The model: the last change of each key."""
        last: dict[int, tuple[tuple[int, int, int], Change]] = {}
        for number, one in enumerate(self.changes[:end]):
            order = one.time, one.position, number
            if (with_bad or not one.is_bad or one.is_delete) and (one.key not in last or order > last[one.key][0]):
                last[one.key] = order, one
        return {key: None if one.is_bad else order[2] for key, (order, one) in last.items() if not one.is_delete}


STEPS = st.permutations(["round", "round", "killed", "restore", "replay", "retry"])


@pytest.mark.timeout(1_200)
@settings(max_examples=2, deadline=None, suppress_health_check=[*HealthCheck], phases=[Phase.generate])
@given(seed=st.integers(0, 2**32), steps=STEPS)
def test_the_table_is_what_the_model_says(
    delta_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int, steps: list[str]
) -> None:
    """Each of many keys is a trial of its own."""
    draw = random.Random(seed)
    log = [Change(draw.randrange(80), draw.randrange(4), draw.randrange(2), draw.random() < 0.4) for _ in range(400)]
    for number in draw.sample(range(len(log)), 60):
        log[number] = log[number]._replace(is_bad=not log[number].is_delete)
    lake = Keyed(delta_spark, tmp_path_factory.mktemp("keyed"), log)
    lake.run()
    is_early = False
    for step in steps:
        size = draw.randrange(min(len(lake.changes) - lake.end(), 150) + 1)
        if step == "replay":
            again = [one for one in log if not one.is_bad]
            lake.changes = [*lake.changes, *draw.sample(again, 100)]
        elif step == "killed":
            killed_at(Upserts, "merge", after=False, run=lambda size=size: lake.run(size))  # type: ignore[misc]
            is_early = True
        elif step == "restore":
            lake.restore(draw.randrange(DeltaTable(str(lake.target)).version() + 1))
            lake.run(0)
            is_early = True
        elif step == "retry":
            writer = lake.start().writer
            if writer.sink.read_state().record is not None:
                retry(writer, None)
        else:
            lake.run(size)
        if not is_early:
            assert lake.state() == lake.wanted(lake.end(), with_bad=False)
    lake.run(len(lake.changes) - lake.end())
    assert lake.state() == lake.wanted(len(lake.changes), with_bad=False)
    lake.take(LOOSE)
    retry(lake.start().writer, None)
    assert lake.state() == lake.wanted(len(lake.changes), with_bad=True)
    # From the beginning, in one piece, and once more.
    lake.restore(0)
    lake.run(len(lake.changes), 0)
    assert lake.state() == lake.wanted(len(lake.changes), with_bad=True)


def test_late_changes_bring_no_row_back(delta_spark: SparkSession, tmp_path: Path) -> None:
    lake = Keyed(delta_spark, tmp_path, [
        Change(1, 5, 0), Change(2, 5, 0),
        Change(1, 7, 0, is_delete=True), Change(2, 4, 0), Change(3, 6, 0, is_delete=True), Change(2, 6, 0, is_bad=True),
        Change(1, 6, 0), Change(3, 5, 0), Change(1, 7, 0, is_delete=True),
        Change(1, 8, 0),
    ])  # fmt: skip
    lake.run(2, 4)
    assert lake.state() == {2: 1}
    killed_at(Upserts, "merge", after=True, run=lambda: lake.run(3))
    assert lake.state() == {2: 1}
    lake.run(1)
    assert lake.state() == {2: 1, 1: 9}
    lake.take(LOOSE)
    assert retry(lake.start().writer, None) == Retried(1, 0)
    assert lake.state() == {2: None, 1: 9}
    state = lake.start().writer.sink.read_state()
    assert (state.sequence, state.taken_out, state.is_whole, state.ends[KEY]) == (5, None, True, 280)
    assert {one["operation"] for one in DeltaTable(str(lake.target)).history(5)} == {"MERGE"}


def test_delete_of_a_dead_run(delta_spark: SparkSession, tmp_path: Path) -> None:
    """In the same millisecond, where the place in the round decides, which was another one in that run."""
    lake = Keyed(delta_spark, tmp_path, [Change(1, 5, 0, is_delete=True), Change(1, 5, 0)])
    with pytest.MonkeyPatch.context() as patched:
        second_task = F.struct(F.lit(1).cast("long").alias("round"), F.lit(1 << 33).alias("place"))
        patched.setattr(writing, "_with_arrival", lambda rows, _: rows.withColumn(ARRIVAL, second_task))
        killed_at(Upserts, "merge", after=False, run=lambda: lake.run(1))
    deletes = delta_spark.table(f"delta.`{table_of_deletes(str(lake.target))}`").select("number", "sequence.place")
    assert [tuple(row) for row in deletes.collect()] == [(1, 1 << 33)]
    lake.run(2)
    assert lake.state() == {1: 1}


def canal(kind: str, *rows: dict[str, str | None], es: int, **more: Any) -> bytes:
    return json.dumps({"data": rows or None, "type": kind, "es": es, "ts": es, "id": 1, **more}).encode()


def send(bench: Bench, *bodies: bytes) -> None:
    bench.tube.load("clicks", [NewMessage(0, body) for body in bodies])


def rows(bench: Bench, *columns: str) -> list[tuple[Any, ...]]:
    found = bench.spark.table(f"delta.`{bench.settings.target}`").select(*columns).collect()
    return sorted(map(tuple, found), key=str)


def test_a_job_with_a_table_of_its_owners_rules(bench: Bench) -> None:
    where = bench.settings.target
    how = {"format": "canal-json", "schema": "id BIGINT, name STRING", "key": ("id",), "evolve": True}
    bad = str(bench.folder / "bad")
    bench.spark.sql(
        f"CREATE TABLE delta.`{where}` (id BIGINT NOT NULL, name VARCHAR(3) NOT NULL, note STRING,"
        " first STRING GENERATED ALWAYS AS (substring(name, 1, 1))) USING delta"
    )
    bench.spark.sql(f"ALTER TABLE delta.`{where}` ADD CONSTRAINT even CHECK (id % 2 = 0 OR name = 'odd')")
    send(
        bench,
        canal("INSERT", {"id": "2", "name": "a"}, {"id": "4", "name": "b"}, es=1),
        canal("INSERT", {"id": "6", "name": "c"}, {"id": "7", "name": "c"}, es=1),
        canal("INSERT", {"id": "8", "name": "long"}, es=1),
        canal("INSERT", {"id": None, "name": "x"}, es=1),
        canal("ALTER", isDdl=True, es=1),
    )
    with pytest.raises(IngestFailed) as caught:
        bench.run(**how)
    place = "[BAD_RECORD] bad record in topic clicks, partition 1:clicks:0, offset 28, message id "
    assert error_text(caught.value).startswith(place)
    operations = [one["operation"] for one in DeltaTable(where).history(2)]
    assert (operations, rows(bench, "id")) == (["SET TBLPROPERTIES", "WRITE"], [])
    [one] = bench.run(**how, bad_records=bad)
    assert (one.rows, one.bad_rows, one.total_other_rows) == (2, 3, 1)
    reasons = bench.spark.table(f"delta.`{bad}`").select("reason").collect()
    assert sorted(row.reason for row in reasons) == [
        "id is NOT NULL but has no value",
        "the target's constraint even refuses it",
        "the value of name is too long for varchar(3)",
    ]
    # Another's column stays as it is.
    bench.spark.sql(f"UPDATE delta.`{where}` SET note = 'mine'")
    send(
        bench,
        canal("UPDATE", {"id": "10", "name": "d"}, es=2, old=[{"id": "2"}]),
        canal("DELETE", {"id": "12"}, es=3),
        canal("UPDATE", {"id": "4", "name": "e"}, es=2, old=[{"name": "b"}]),
    )
    [one] = bench.run(**{**how, "evolve": False}, bad_records=bad)
    assert (one.rows, one.bad_rows, one.total_other_rows) == (4, 0, 0)
    assert rows(bench, "id", "name", "first", "note") == [(10, "d", "d", None), (4, "e", "e", "mine")]
    deletes = bench.spark.table(f"delta.`{table_of_deletes(where)}`")
    assert sorted(row.id for row in deletes.select("key.id").collect()) == [2, 12]


def debezium(op: str, source: dict[str, Any], **row: Any) -> bytes:
    image = {"before" if op == "d" else "after": row}
    return json.dumps({"op": op, "source": source, **image}).encode()


def mysql(server: int, file: int, pos: int, second: int) -> dict[str, Any]:
    name = f"mysql-bin.{file:06}"
    own = {"server_id": server, "file": name, "pos": pos, "row": 0, "ts_ms": second * 1_000}
    return {"connector": "mysql", "name": "shop", **own}


def postgresql(lsn: int, ms: int) -> dict[str, Any]:
    sequence = json.dumps([str(lsn - 1), str(lsn)])
    return {"connector": "postgresql", "name": "shop", "lsn": lsn, "sequence": sequence, "ts_ms": ms}


KEYED: dict[str, Any] = {"format": "debezium-json", "schema": "id BIGINT, v STRING, bio STRING", "key": ("id",)}


@pytest.mark.parametrize("is_one_round", [True, False])
def test_takeover_by_another_server(bench: Bench, is_one_round: bool) -> None:
    """A new server's changes count by their time although its log's places are smaller."""
    full = {"bio": "b"}
    send(
        bench,
        *(debezium("u", mysql(1, 9, 900, 10), id=n, v="first", **full) for n in range(4)),
        # A clock that went back, and a statement that waited: by their places they are later.
        debezium("u", mysql(1, 9, 901, 8), id=3, v="waited", **full),
    )
    if not is_one_round:
        bench.run(**KEYED)
    send(
        bench,
        debezium("u", mysql(2, 1, 4, 11), id=0, v="taken over", **full),
        # In the second in which the first server wrote last.
        debezium("u", mysql(2, 1, 5, 10), id=1, v="in its first second", **full),
        # The new server has a clock that is behind.
        debezium("u", mysql(2, 1, 6, 9), id=2, v="behind", **full),
    )
    bench.run(**KEYED)
    assert rows(bench, "id", "v") == [(0, "taken over"), (1, "in its first second"), (2, "first"), (3, "waited")]
    # Late ones of the first server change nothing more.
    send(bench, debezium("u", mysql(1, 9, 899, 9), id=0, v="late", **full))
    send(bench, debezium("d", mysql(1, 9, 899, 9), id=3))
    bench.run(**KEYED)
    assert [row[1] for row in rows(bench, "id", "v")] == ["taken over", "in its first second", "first", "waited"]


@pytest.mark.parametrize("is_one_round", [True, False])
def test_a_log_that_begins_anew_under_its_name_goes_on(bench: Bench, is_one_round: bool) -> None:
    """As of a PostgreSQL that was replaced by one with smaller LSNs."""
    full = {"bio": "b"}
    send(bench, *(debezium("u", postgresql(1_000, 50), id=n, v="first", **full) for n in range(3)))
    send(bench, debezium("d", postgresql(1_001, 51), id=2))
    if not is_one_round:
        bench.run(**KEYED)
    send(
        bench,
        debezium("u", postgresql(5, 60), id=0, v="anew", **full),
        debezium("c", postgresql(6, 61), id=2, v="again", **full),
        # One of before, which comes late: place and time are against it.
        debezium("u", postgresql(999, 49), id=1, v="late", **full),
    )
    bench.run(**KEYED)
    assert rows(bench, "id", "v") == [(0, "anew"), (1, "first"), (2, "again")]


MISSING = "__debezium_unavailable_value"


@pytest.mark.parametrize("evolve", [True, False])
def test_an_update_leaves_alone_what_it_does_not_know(bench: Bench, evolve: bool) -> None:
    how = {**KEYED, "schema": "id BIGINT, v STRING, bio STRING NOT NULL, note STRING", "evolve": evolve}
    send(
        bench,
        debezium("c", postgresql(1, 1), id=1, v="a", bio="long", note="n"),
        debezium("c", postgresql(2, 1), id=2, v="a", bio="long", note=None),
        debezium("u", postgresql(3, 1), id=2, v="b", bio=MISSING),
    )
    bench.run(**how)
    assert rows(bench, "id", "v", "bio", "note") == [(1, "a", "long", "n"), (2, "b", "long", None)]
    send(
        bench,
        debezium("u", postgresql(4, 2), id=1, v="b", bio=MISSING),
        debezium("u", postgresql(5, 2), id=1, v="c", bio=MISSING, note=None),
        # The job never saw its insert.
        debezium("u", postgresql(6, 2), id=3, v="c", bio=MISSING, note="n"),
    )
    bench.run(**how)
    columns = ("id", "v", "bio", "note", "change.absent")
    assert rows(bench, *columns) == [
        (1, "c", "long", None, None),
        (2, "b", "long", None, None),
        (3, "c", None, "n", ["bio"]),
    ]
    send(bench, debezium("u", postgresql(7, 3), id=3, v="d", bio=MISSING, note=MISSING))
    bench.run(**how)
    assert rows(bench, *columns)[2] == (3, "d", None, "n", ["bio"])
    send(bench, debezium("u", postgresql(8, 4), id=3, v="e", bio="known"))
    bench.run(**how)
    assert rows(bench, *columns)[2] == (3, "e", "known", "n", None)
    # A row that is written anew has nothing of the former one.
    send(bench, debezium("d", postgresql(9, 5), id=1), debezium("c", postgresql(10, 5), id=1, v="f", bio="new"))
    bench.run(**how)
    assert rows(bench, *columns)[0] == (1, "f", "new", None, ["note"])


@pytest.mark.parametrize("evolve", [True, False])
def test_struct_fields_over_schema_changes(bench: Bench, evolve: bool) -> None:
    """Struct fields keep their values if a schema reorders or omits them."""

    def run(columns: str, **more: Any) -> None:
        bench.run(**{**KEYED, "schema": f"id BIGINT, v STRING, {columns}", "evolve": evolve, **more})

    row = {"v": "a", "s": {"a": 1, "b": "one", "in": {"x": 1, "y": 2}}}
    send(bench, *(debezium("c", postgresql(n, 1), id=n, **row) for n in range(1, 5)))
    run("s STRUCT<a: INT, b: STRING, in: STRUCT<x: INT, y: INT>>")
    send(
        bench,
        debezium("u", postgresql(5, 2), id=1, v="b"),
        debezium("u", postgresql(6, 2), id=2, v="b", s={"a": 5, "b": "five", "in": {"y": 7}}),
        debezium("u", postgresql(7, 2), id=3, v="b", s=None),
        debezium("c", postgresql(8, 2), id=5, v="b", s={"a": 6, "b": "six", "in": {"y": 8}}),
    )
    run("s STRUCT<in: STRUCT<y: INT>, b: STRING, a: INT>")
    send(bench, debezium("u", postgresql(9, 3), id=4, v="b", s={"b": "z"}))
    run("s STRUCT<b: STRING>")
    assert rows(bench, "id", "s") == [
        *[(1, (1, "one", (1, 2))), (2, (5, "five", (1, 7))), (3, None)],
        *[(4, (1, "z", (1, 2))), (5, (6, "six", (None, 8)))],
    ]
    send(bench, debezium("u", postgresql(10, 4), id=1, v="c"), debezium("u", postgresql(11, 4), id=2, s=None))
    run("s STRUCT<n: INT, a: INT, b: STRING>", evolve=True)
    assert rows(bench, "id", "s.a", "s.b", "s.n")[:2] == [(1, 1, "one", None), (2, None, None, None)]


def test_target_rules_and_partial_changes(bench: Bench) -> None:
    """The target's rules apply only to the columns that a change knows."""
    where = bench.settings.target
    bench.spark.sql(f"CREATE TABLE delta.`{where}` (id BIGINT NOT NULL, v VARCHAR(3), bio STRING NOT NULL) USING delta")
    how = {**KEYED, "evolve": True, "bad_records": str(bench.folder / "bad")}
    send(bench, debezium("c", postgresql(1, 1), id=1, v="a", bio="long"))
    bench.run(**how)
    send(bench, debezium("u", postgresql(2, 2), id=1, v="b"), debezium("u", postgresql(3, 2), id=1, v="long"))
    [one] = bench.run(**how)
    assert (one.rows, one.bad_rows) == (1, 1)
    assert rows(bench, "id", "v", "bio") == [(1, "b", "long")]


def test_without_a_key_the_target_is_a_log_of_changes(bench: Bench) -> None:
    how = {"format": "canal-json", "schema": "id BIGINT NOT NULL"}
    send(bench, canal("INSERT", {"id": "1"}, {"id": "2"}, es=1), canal("TRUNCATE", isDdl=True, es=2))
    bench.run(**how)
    send(bench, canal("DELETE", {"id": None}, es=2))
    bench.run(**how)
    found = rows(bench, "change.sequence.time", "change.sequence.row", "id", "change.operation", "tubemq.partitionKey")
    key = "1:clicks:0"
    assert found == [
        *[(1, 0, 1, "insert", key), (1, 1, 2, "insert", key)],
        *[(2, 0, None, "delete", key), (2, 0, None, "truncate", key)],
    ]
    places = [row[0] for row in rows(bench, "change.sequence.round")]
    assert len({*places}) == 2


@pytest.mark.merge
def test_newest_row_with_several_tasks(bench: Bench) -> None:
    """The last row of a partition is the newest one, whichever tasks read it."""
    how: dict[str, Any] = {"format": "csv", "schema": "id INT, v INT", "key": ("id",), "order_by": "arrival"}
    takeover = {"backlogTakeover": "true", "backlogTakeoverMinRows": "100"}
    send(bench, *(b"%d,%d" % (n % 100, n // 100) for n in range(4_000)))
    options = {**bench.settings.source_options, **takeover}
    bench.run(**how, source_count=4, source_options=options, max_offsets_per_trigger=1_500)
    assert rows(bench, "v") == [(39,)] * 100


@pytest.mark.parametrize("order_by", ["at", "arrival"])
def test_plain_rows_have_a_newest_one_as_well(bench: Bench, order_by: str | None) -> None:
    how: dict[str, Any] = {"format": "csv", "schema": "id INT, name STRING, at INT", "key": ("id",)}
    send(bench, b"1,a,5", b"2,b,5", b"1,c,4")
    bench.run(**how, order_by=order_by)
    assert rows(bench, "id", "name") == [(1, "a" if order_by == "at" else "c"), (2, "b")]
    send(bench, b"2,d,6", b"1,e,6", b"1,f,6", b"1,g,1")
    bench.run(**how, order_by=order_by)
    assert rows(bench, "id", "name") == [(1, "f" if order_by == "at" else "g"), (2, "d")]


def test_what_orders_rows_is_not_widened(bench: Bench) -> None:
    how: dict[str, Any] = {"format": "csv", "key": ("id",), "order_by": "at", "evolve": True}
    how["table_properties"] = {"delta.enableTypeWidening": "true"}
    send(bench, b"1,a,5")
    bench.run(**how, schema="id INT, name STRING, at INT")
    with pytest.raises(ConfigurationError, match=r"column at of .* has type int"):
        bench.run(**how, schema="id INT, name STRING, at BIGINT")
    send(bench, b"1,b,6")
    bench.run(**how, schema="id INT, name STRING, at INT")
    assert rows(bench, "id", "name") == [(1, "b")]


@pytest.mark.parametrize(
    "how", ["another group", "another group, history cut", "a copy", "rows of others", "rows that Spark has not seen"]
)
def test_arrivals_are_newer_than_existing_rows(bench: Bench, how: str) -> None:
    """Records that arrive later are newer than the rows in the table, whoever wrote those."""
    keyed: dict[str, Any] = {"format": "csv", "schema": "id INT, v INT", "key": ("id",), "order_by": "arrival"}
    first, other = bench.settings.target, str(bench.folder / "other")
    for number in range(3):
        send(bench, b"1,%d" % number)
        bench.run(**keyed)
    more: dict[str, Any] = {"consumer_group": "renamed"} if "group" in how else {"target": other}
    if "cut" in how:
        cut_history(Path(first))
    if how == "a copy":
        key = "TBLPROPERTIES ('tubeclient.key' = 'id')"
        bench.spark.sql(f"CREATE TABLE delta.`{other}` USING delta {key} AS SELECT * FROM delta.`{first}`").collect()
    elif how == "rows of others":
        bench.run(**keyed, **more, starting_offsets="latest")
        bench.spark.sql(f"INSERT INTO delta.`{other}` SELECT * FROM delta.`{first}`").collect()
    elif how == "rows that Spark has not seen":
        bench.run(**keyed, **more, starting_offsets="latest")
        assert bench.spark.table(f"delta.`{other}`").cache().count() == 0
        write_deltalake(other, DeltaTable(first).to_pyarrow_table(), mode="append")
    send(bench, b"1,77", b"2,77")
    bench.settings = bench.job(**more).settings
    bench.run(**keyed)
    assert rows(bench, "id", "v") == [(1, 77), (2, 77)]


def test_not_null_struct_fields(bench: Bench) -> None:
    """The job refuses to merge into struct fields that are NOT NULL."""
    where = f"delta.`{bench.settings.target}`"
    how: dict[str, Any] = {"format": "json", "schema": "id INT, t STRUCT<A: INT>", "key": ("id",)}
    how |= {"evolve": True, "order_by": "arrival"}
    bench.spark.sql(f"CREATE TABLE {where} (id INT, t STRUCT<a: INT NOT NULL>) USING delta").collect()
    send(bench, b'{"id": 2, "t": {"A": 5}}')
    with pytest.raises(ConfigurationError, match=r"`t`\.`a` of .* is NOT NULL inside a column.* ALTER COLUMN `t`\.`a`"):
        bench.run(**how)
    bench.spark.sql(f"ALTER TABLE {where} ALTER COLUMN `t`.`a` DROP NOT NULL").collect()
    bench.run(**how)
    assert rows(bench, "id", "t.a") == [(2, 5)]


def test_columns_may_have_any_names(bench: Bench) -> None:
    """Also those of this code, and some that Spark takes for something else."""
    names = ("__deleted", "__parsed", "key", "row", "a.b", "deleted", "deletedKey")
    columns = ", ".join(f"{quoted(one)} STRING" for one in names)
    how: dict[str, Any] = {"format": "canal-json", "schema": f"`an id` STRING, {columns}", "key": ("an id",)}
    how |= {"table_properties": {"delta.columnMapping.mode": "name"}}
    own: dict[str, str | None] = {"an id": "1", **dict.fromkeys(names, "x")}
    send(bench, canal("INSERT", own, es=1), canal("INSERT", {**own, "an id": "2"}, es=1), canal("DELETE", own, es=3))
    bench.run(**how)
    send(bench, canal("UPDATE", own, es=2), canal("UPDATE", {**own, "an id": "2", "a.b": "y"}, es=2))
    bench.run(**how)
    assert rows(bench, *map(quoted, own)) == [("2", "x", "x", "x", "x", "y", "x", "x")]


@pytest.mark.parametrize("order_by", ["at", "arrival"])
def test_arrivals_are_newer_than_others_updates(bench: Bench, order_by: str) -> None:
    """Whatever numbers they have."""
    keyed: dict[str, Any] = {"format": "csv", "schema": "id INT, at INT, v INT", "key": ("id",), "order_by": order_by}
    send(bench, b"1,5,0", b"2,5,0", b"1,5,77", b"2,4,77")

    def beside(seen: Round) -> None:
        if seen.rows_behind:
            update = f"UPDATE delta.`{bench.settings.target}` SET change.sequence.round = 60, v = 60"
            bench.spark.sql(update).collect()

    bench.job(**keyed, max_offsets_per_trigger=2).run(Seen(bench, beside))
    assert rows(bench, "id", "v") == [(1, 77), (2, 60 if order_by == "at" else 77)]


@pytest.mark.parametrize("how", ["by name", "moved", "removed"])
def test_table_of_deletes_elsewhere(bench: Bench, how: str) -> None:
    """The job refuses a target whose table of deleted keys is elsewhere or gone."""
    keyed: dict[str, Any] = {"format": "canal-json", "schema": "id INT, name STRING", "key": ("id",)}
    first, name = bench.settings.target, f"named_{bench.folder.name}"
    own: dict[str, str | None] = {"id": "1", "name": "a"}
    send(bench, canal("INSERT", own, es=1), canal("DELETE", own, es=20))
    bench.run(**keyed)
    send(bench, canal("INSERT", own, es=10))
    target = first
    if how == "by name":
        bench.spark.sql(f"CREATE TABLE {name} USING delta LOCATION '{first}'").collect()
        target = f"default.{name}"
    elif how == "moved":
        target = shutil.move(first, str(bench.folder / "moved"))
    else:
        shutil.rmtree(table_of_deletes(first))
    with pytest.raises(ConfigurationError, match=r"has its deleted keys in the table .*, and .* is not there\. Use"):
        bench.run(**keyed, target=str(target))
    where = target if how == "by name" else f"delta.`{target}`"
    if how == "moved":
        shutil.move(table_of_deletes(first), table_of_deletes(str(target)))
    else:
        bench.spark.sql(f"ALTER TABLE {where} UNSET TBLPROPERTIES ('tubeclient.deletes')").collect()
    bench.run(**keyed, target=str(target))
    assert bench.spark.table(where).count() == (0 if how == "moved" else 1)
    bench.spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_deleted_keys_of_a_replaced_target(bench: Bench) -> None:
    """Twice, and put back to where it was replaced the second time."""
    keyed: dict[str, Any] = {"format": "canal-json", "schema": "id INT, name STRING", "key": ("id",)}
    one: dict[str, str | None] = {"id": "1", "name": "a"}
    two: dict[str, str | None] = {"id": "2", "name": "a"}
    send(bench, canal("INSERT", one, two, {"id": "3", "name": "b"}, es=1))
    where = f"delta.`{bench.settings.target}`"
    replaced = f"CREATE OR REPLACE TABLE {where} USING delta TBLPROPERTIES ('tubeclient.key' = 'id')"

    def follow(late: dict[str, str | None]) -> None:
        send(bench, canal("INSERT", late, es=10))
        with pytest.raises(ConfigurationError, match=r"keys of a table other than .*say so: ALTER") as error:
            bench.run(**keyed, starting_offsets="target")
        bench.spark.sql(str(error.value).partition("say so: ")[2].partition(". If not")[0]).collect()
        bench.run(**keyed, starting_offsets="target")

    for number, deleted in enumerate((one, two)):
        send(bench, canal("DELETE", deleted, es=20))
        bench.run(**keyed)
        bench.spark.sql(f"{replaced} AS SELECT * FROM {where}").collect()
        version = DeltaTable(bench.settings.target).version()
        follow(one)
        assert rows(bench, "id") == [(2,), (3,)][number:]
    bench.spark.sql(f"RESTORE TABLE {where} TO VERSION AS OF {version}").collect()
    follow(two)
    assert rows(bench, "id") == [(3,)]


def test_deleted_keys_of_a_copied_target(bench: Bench) -> None:
    """The copy has no commit of the group, and the numbers of the deleted keys are higher than those of its rows."""
    keyed: dict[str, Any] = {"format": "canal-json", "schema": "id INT, name STRING", "key": ("id",)}
    all_of_them: list[dict[str, str | None]] = [{"id": str(number), "name": "a"} for number in range(4)]
    send(bench, canal("INSERT", *all_of_them, es=1))
    bench.run(**keyed)
    for deleted in all_of_them[:3]:
        send(bench, canal("DELETE", deleted, es=20))
        bench.run(**keyed)
    target, copy = bench.settings.target, f"{bench.folder}/copy"
    made = f"CREATE TABLE delta.`{copy}` USING delta TBLPROPERTIES ('tubeclient.key' = 'id')"
    bench.spark.sql(f"{made} AS SELECT * FROM delta.`{target}`").collect()
    shutil.rmtree(target)
    shutil.move(copy, target)
    with pytest.raises(ConfigurationError, match="say so: ALTER") as error:
        bench.run(**keyed, starting_offsets="group")
    bench.spark.sql(str(error.value).partition("say so: ")[2].partition(". If not")[0]).collect()
    bench.run(**keyed, starting_offsets="group")
    send(bench, canal("INSERT", *all_of_them, es=10))
    bench.run(**keyed)
    assert rows(bench, "id") == [(3,)]


def test_deleted_keys_of_a_clone(bench: Bench) -> None:
    """And those of a clone for its own clone."""
    keyed: dict[str, Any] = {"format": "canal-json", "schema": "id INT, name STRING", "key": ("id",)}
    target = bench.settings.target
    for number in range(3):
        own: dict[str, str | None] = {"id": str(number), "name": "a"}
        send(bench, canal("INSERT", own, es=1), canal("DELETE", own, es=20))
        bench.run(**keyed, target=target)
        clone = f"{target}{number}"
        bench.spark.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{target}`").collect()
        shutil.copytree(table_of_deletes(target), table_of_deletes(clone))
        ends = {str(KEYS[0]): 56 * (number + 1), str(KEYS[1]): 0}
        bench.job(**keyed, target=clone, starting_offsets=json.dumps(ends)).reset_offsets(["clicks"])
        target = clone
    send(bench, *(canal("INSERT", {"id": str(number), "name": "late"}, es=10) for number in range(4)))
    bench.settings = bench.job(target=target).settings
    bench.run(**keyed)
    assert rows(bench, "id", "name") == [(3, "late")]


@pytest.mark.parametrize("is_own", [False, True])
def test_a_target_goes_on_with_its_key_alone(bench: Bench, is_own: bool) -> None:
    where, how = bench.settings.target, {"format": "csv", "schema": "id INT, name STRING"}
    keyed = {**how, "order_by": "arrival", "evolve": is_own}
    if is_own:
        bench.spark.sql(f"CREATE TABLE delta.`{where}` (id INT, name STRING) USING delta")
    send(bench, b"1,a", b"1,b")
    bench.run(**keyed, key=("ID",))
    assert DeltaTable(where).metadata().configuration["tubeclient.key"] == "id"
    version = DeltaTable(where).version()
    for key, message in (((), "no key"), (("id", "name"), "the key id,name")):
        with pytest.raises(ConfigurationError, match=f"newest state of each id, .* the job has {message}. Use"):
            bench.run(**(keyed if key else how), key=key)
    assert DeltaTable(where).version() == version
    send(bench, b"1,c")
    bench.run(**keyed, key=("id",))
    assert rows(bench, "id", "name") == [(1, "c")]


def test_replaced_table_says_its_key(bench: Bench) -> None:
    """CREATE OR REPLACE TABLE takes the property away that says so. The errors' advice leads to the right rows."""
    how = {"format": "canal-json", "schema": "id INT, name STRING"}
    where = f"delta.`{bench.settings.target}`"
    send(bench, *(canal("INSERT", {"id": str(one), "name": "a"}, es=one) for one in (1, 2, 3)))
    bench.run(**how, key=("id",))
    bench.spark.sql(f"CREATE OR REPLACE TABLE {where} USING delta CLUSTER BY (id) AS SELECT * FROM {where}")
    send(bench, canal("UPDATE", {"id": "1", "name": "b"}, es=4), canal("DELETE", {"id": "2", "name": "a"}, es=5))
    with pytest.raises(ConfigurationError) as caught:
        bench.run(**how, key=("id",))
    bench.spark.sql(re.findall(r"say so: (ALTER TABLE .*? SET TBLPROPERTIES \(.*?\))", str(caught.value))[0])
    bench.run(**how, key=("id",), starting_offsets="target")
    assert rows(bench, "id", "name") == [(1, "b"), (3, "a")]


def test_a_log_gets_no_key(bench: Bench) -> None:
    how = {"format": "canal-json", "schema": "id INT, name STRING"}
    send(bench, canal("INSERT", {"id": "1", "name": "a"}, es=1), canal("DELETE", {"id": "1", "name": "a"}, es=2))
    bench.run(**how)
    with pytest.raises(ConfigurationError, match="If its rows were appended without a key, leave key"):
        bench.run(**how, key=("id",))
    assert not DeltaTable.is_deltatable(table_of_deletes(bench.settings.target))
    assert [one["operation"] for one in DeltaTable(bench.settings.target).history(1)] == ["WRITE"]


def test_a_retried_record_keeps_its_place_in_the_round(bench: Bench) -> None:
    bad = str(bench.folder / "bad")
    how: dict[str, Any] = {"format": "csv", "key": ("id",), "order_by": "arrival", "bad_records": bad}
    send(bench, b"1,1", b"1,two", b"2,two", b"2,2")
    [one] = bench.run(**how, schema="id INT, v INT", evolve=True)
    assert (one.rows, one.bad_rows) == (2, 2)
    assert bench.job(**how, schema="id INT, v INT", format_options={"nullValue": "two"}).retry() == Retried(2, 0)
    assert rows(bench, "id", "v") == [(1, None), (2, 2)]


def test_retry_with_a_key_that_came_later(bench: Bench) -> None:
    """A retry waits until the target says its key, and takes no records whose order nobody kept."""
    how: dict[str, Any] = {"schema": "id INT, v INT", "bad_records": str(bench.folder / "bad"), "evolve": True}
    send(bench, b"1,1", b"1,2", b"2,1")
    assert [one.bad_rows for one in bench.run(**how, format="json")] == [3]
    keyed = {**how, "format": "csv", "key": ("id",), "order_by": "arrival"}
    with pytest.raises(ConfigurationError, match=r"does not have the newest row of each id yet\. Start the job"):
        bench.job(**keyed).retry()
    assert bench.run(**keyed) == []
    with pytest.raises(ConfigurationError, match="order-by is arrival, but a job without a key kept some of these"):
        bench.job(**keyed).retry()
    assert rows(bench, "id", "v") == []


def test_column_dropped_during_a_run(delta_spark: SparkSession, tmp_path: Path) -> None:
    """A column that somebody drops during a run does not come back without evolve."""
    lake = Keyed(delta_spark, tmp_path, [Change(n % 3, n, 0) for n in range(8)])
    run = lake.run(2)
    where = f"delta.`{lake.target}`"
    delta_spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')").collect()
    run.write(lake, 2)
    delta_spark.sql(f"ALTER TABLE {where} DROP COLUMN v").collect()
    with pytest.raises(ConfigurationError, match=r"lacks columns of the job's rows: v bigint\. Set evolve"):
        run.write(lake, 2)
    assert "v" not in delta_spark.table(where).columns
    lake.run(2, evolve=True)
    assert lake.end() == 6


def test_dropped_key_column(delta_spark: SparkSession, tmp_path: Path) -> None:
    """It would be null in the rows that are there, and each would come a second time."""
    lake = Keyed(delta_spark, tmp_path, [Change(n % 3, n, 0) for n in range(8)])
    lake.run(2).write(lake, 4)
    where = f"delta.`{lake.target}`"
    delta_spark.sql(f"ALTER TABLE {where} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')").collect()
    delta_spark.sql(f"ALTER TABLE {where} DROP COLUMN id").collect()
    with pytest.raises(ConfigurationError, match="lacks the key column id"):
        lake.run(2, evolve=True).write(lake, 2)
    assert "id" not in delta_spark.table(where).columns


def test_fewer_source_columns(bench: Bench) -> None:
    """A job with fewer source columns goes on with its target and leaves the others null."""
    how: dict[str, Any] = {"format": "csv", "schema": "id INT, v INT", "key": ("id",), "order_by": "v"}
    send(bench, b"1,1", b"2,1")
    bench.run(**how)
    send(bench, b"1,2", b"3,2")
    fewer = {**bench.settings.source_options, "columns": "topic,partitionKey,messageId,value"}
    bench.run(**how, source_options=fewer)
    assert rows(bench, "id", "v", "tubemq.brokerId") == [(1, 2, None), (2, 1, 1), (3, 2, None)]


def test_char_column_as_key(bench: Bench) -> None:
    """The job refuses a CHAR column in the key, because Delta pads its values."""
    bench.spark.sql(f"CREATE TABLE delta.`{bench.settings.target}` (id CHAR(5), code CHAR(3), v INT) USING delta")
    how: dict[str, Any] = {"format": "csv", "schema": "id STRING, code STRING, v INT", "evolve": True, "order_by": "v"}
    send(bench, b"a,x,1", b"a,y,2")
    with pytest.raises(ConfigurationError, match=r"key names id, which is CHAR in .* Use another key"):
        bench.run(**how, key=("ID",))
    with pytest.raises(ConfigurationError, match="key names code, which is CHAR in"):
        bench.run(**how, key=("v", "code"))
    bench.run(**how, key=("v",))
    assert rows(bench, "id", "code", "v") == [("a    ", "x  ", 1), ("a    ", "y  ", 2)]


def test_of_two_runs_with_the_same_number_one_merges(delta_spark: SparkSession, tmp_path: Path) -> None:
    lake = Keyed(delta_spark, tmp_path, [Change(n % 3, n, 0) for n in range(8)])
    lake.run(2)
    slow = lake.start()
    merge = Upserts.merge

    def overtaken(*arguments: Any, **named: Any) -> None:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Upserts, "merge", merge)
            lake.run(4)
        merge(*arguments, **named)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Upserts, "merge", overtaken)
        with pytest.raises(OvertakenRun):
            slow.write(lake, 3)
    assert lake.state() == lake.wanted(6, with_bad=True)
    assert lake.start().writer.sink.read_state().sequence == 2


def test_what_a_key_cannot_be_is_said(tmp_path: Path) -> None:
    needed = {"master_servers": "127.0.0.1:8715", "consumer_group": "g", "topics": ("clicks",), "target": "/lake/t"}
    canals = {**needed, "format": "canal-json", "schema": "id INT, m INT"}
    for wrong, message in (
        ({**needed, "key": ("id",)}, "key is given, but the format is raw"),
        ({**canals, "order_by": "m"}, "order-by says which row of a key is the newest, but key is not given"),
        ({**canals, "key": ("id",), "order_by": "m"}, "the newest, but canal-json says it"),
        ({**canals, "key": ("id",), "bad_records": "/lake/t_deletes/"}, "the same folder"),
        (
            {**canals, "format": "json", "key": ("id",)},
            "nothing says which row of a key is the newest.* or arrival",
        ),
        ({**canals, "separator": ","}, "separator is for csv and kv, but the format is canal-json"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            IngestSettings(**wrong)  # type: ignore[arg-type]


def test_what_the_schema_lacks_is_said(delta_spark: SparkSession) -> None:
    for wrong, message in (
        ({"schema": "id INT", "key": ("ID", "no")}, "key is no, which the schema has not; it has id"),
        ({"schema": "a ARRAY<INT>", "key": ("a",)}, r"key is a, of type array<int>; name a plain column"),
        (
            {"schema": "id INT, arrival INT", "key": ("id",)},
            "order-by is arrival, .* but the schema has a column of that name",
        ),
        ({"schema": "id INT, change INT", "key": ("id",)}, "the schema has a column change"),
        (
            {"schema": "id INT, Place INT", "key": ("id",), "order_by": "place"},
            "order-by is Place, but change.sequence",
        ),
    ):
        with pytest.raises(ConfigurationError, match=message):
            FormatSettings(**{"format": "json", "order_by": "arrival", **wrong}).record_format()  # type: ignore[arg-type]
