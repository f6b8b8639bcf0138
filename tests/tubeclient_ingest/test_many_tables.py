"""One topic into many tables, by what its records say."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, NewMessage, TopicConfig
from tests.tubeclient_ingest.database import STORES, Database, Form
from tests.tubeclient_ingest.lake import Killed, each_commit
from tubeclient.errors import ConfigurationError
from tubeclient.wire.payload import encode_attributes, encode_payload
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.commits.stream_ends import StreamsLeftBehind, ToRest
from tubeclient_ingest.job import Ingest
from tubeclient_ingest.run import Event
from tubeclient_ingest.settings.ingest_settings import IngestSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = ["shop.orders", "crm.orders", "crm._users"]
WRITERS = ["tasks", "spark"]
COLUMNS = "id BIGINT NOT NULL, name STRING, n INT"


class Lake:
    def __init__(self, tube: EmbeddedTubeMQ, spark: SparkSession, folder: Path) -> None:
        self.tube, self.spark, self.folder = tube, spark, folder / "lake"
        self.to_rest: list[ToRest] = []
        self.settings = IngestSettings(
            master_servers=tube.master_address,
            consumer_group="lake",
            topics=("cdc",),
            table_by="database.table",
            target=f"{self.folder}/{{database}}/{{table}}",
            schema=COLUMNS,
            format="canal-json",
            source_count=2,
            source_options={"masterWebPort": str(tube.master_web_port)},
        )

    def run(self, **changes: Any) -> None:
        def see(event: Event) -> None:
            if isinstance(event, ToRest):
                self.to_rest.append(event)

        Ingest(self.spark, settings=replace(self.settings, **changes)).run(see)

    def run_killed(self, seed: int, **changes: Any) -> None:
        """A run that dies before or after one of its commits, if it has enough of them."""
        with suppress(Killed), each_commit(killed_now_and_then(seed)):
            self.run(**changes)

    def rows(self, table: str, columns: list[str]) -> list[dict[str, Any]]:
        place = f"{self.folder}/{table.replace('.', '/')}"
        found: list[dict[str, Any]] = DeltaTable(place).to_pyarrow_table(columns=columns).to_pylist()
        return found

    def counts(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for row in self.rows("_tubeclient._counts", ["stream", "received", "written", "bad"]):
            assert row["received"] == row["written"] + row["bad"]
            found[row["stream"]] = found.get(row["stream"], 0) + row["received"]
        return found


@pytest.fixture
def lake(tmp_path: Path, delta_spark: SparkSession) -> Iterator[Lake]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("cdc", STORES, 1), TopicConfig("logs", STORES, 1)]) as tube:
        yield Lake(tube, delta_spark, tmp_path)


def killed_now_and_then(seed: int) -> Callable[[Any, SinkRecord | None, Callable[[], None]], None]:
    """Before or after one of the next commits the run dies."""
    chosen = random.Random(seed)
    left = [chosen.randrange(1, 12)]

    def around(_: Any, __: SinkRecord | None, commit: Callable[[], None]) -> None:
        left[0] -= 1
        is_after = chosen.random() < 0.5
        if is_after:
            commit()
        if left[0] == 0:
            raise Killed
        if not is_after:
            commit()

    return around


@pytest.mark.merge("tasks")
@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize("writer", WRITERS)
def test_changes_over_killed_runs(lake: Lake, form: Form, writer: str) -> None:
    """Each change is in its table once, wherever runs die."""
    database = Database(form, TABLES, 1)
    for seed in range(3):
        lake.tube.load("cdc", database.change(60))
        lake.run_killed(seed, format=form, writer=writer)
    lake.run(format=form, writer=writer)
    assert {one: len(lake.rows(one, ["id"])) for one in TABLES} == database.sent
    for table in TABLES:
        places = [
            (
                row["tubemq"]["partitionKey"],
                row["tubemq"]["messageId"],
                row["change"]["sequence"]["row"],
                row["change"]["operation"],
            )
            for row in lake.rows(table, ["tubemq", "change"])
        ]
        assert len(set(places)) == len(places)
    assert lake.to_rest == []


@pytest.mark.parametrize("form", get_args(Form))
def test_each_table_ends_in_the_state_of_the_database(lake: Lake, form: Form) -> None:
    """Keys move, rows are deleted, statements change none; and what is of no table is in the table for the rest."""
    database = Database(form, TABLES, 2)
    keyed: dict[str, Any] = {"format": form, "key": ("id",)}
    for seed in range(3):
        lake.tube.load("cdc", [*database.change(50), database.ddl("shop.orders")])
        lake.run_killed(seed, **keyed)
    lake.tube.load("cdc", [NewMessage(0, one) for one in (b"no", b'{"ts_ms": 7}', b"")])
    lake.run(**keyed)
    for table in TABLES:
        rows = lake.rows(table, ["id", "name", "n"])
        assert {row["id"]: row for row in rows} == database.states[table], table
        assert len(rows) == len(database.states[table])
    assert sorted(row["value"] for row in lake.rows("_tubeclient._rest", ["value"])) == [b"", b"no", b'{"ts_ms": 7}']
    assert set(lake.to_rest) == {ToRest(None)}
    assert lake.counts()["_rest"] == 3


@pytest.mark.merge("tasks")
@pytest.mark.parametrize("form", get_args(Form))
@pytest.mark.parametrize("how", ["tasks", "spark", "key"])
def test_events_say_the_columns_and_tables_follow(lake: Lake, form: Form, how: str) -> None:
    """Columns come while runs go on, die, and are started again."""
    database = Database(form, TABLES, 5, says_columns=True)
    given: dict[str, Any] = {"format": form, "schema": None, "evolve": True, "max_offsets_per_trigger": 40}
    given |= {"key": ("id",)} if how == "key" else {"writer": how}
    for seed in range(2):
        lake.tube.load("cdc", database.change(30))
        database.add(TABLES[seed], f"c{seed}")
        lake.tube.load("cdc", [*database.change(30), *[database.ddl(TABLES[0])] * (form == "canal-json")])
        lake.run_killed(seed, **given)
    lake.run(**given)
    assert lake.to_rest == []
    for number, table in enumerate(TABLES):
        added = [f"c{number}"] if number < 2 else []
        rows = lake.rows(table, ["id", "name", "n", *added])
        if how == "key":
            found = {row["id"]: {one: _plain(value) for one, value in row.items()} for row in rows}
            assert found == database.states[table]
        else:
            assert len(rows) == database.sent[table] + (2 if number == 0 and form == "canal-json" else 0)
            assert all(any(row[one] is not None for row in rows) for one in added)


@pytest.mark.parametrize("key", [(), ("id",)])
def test_wider_column_type(lake: Lake, key: tuple[str, ...]) -> None:
    """A column gets the wider type that events have if the table allows type widening."""
    database = Database("canal-json", ["shop.orders"], 11, says_columns=True)
    given: dict[str, Any] = {"schema": None, "evolve": True, "key": key, "max_offsets_per_trigger": 20}
    given["table_properties"] = {"delta.enableTypeWidening": "true"}
    lake.tube.load("cdc", database.change(20))
    lake.run(**given)
    database.n_type = "int unsigned"
    lake.tube.load("cdc", database.change(40))
    lake.run(**given)
    lake.run(**given)
    rows = lake.spark.read.format("delta").load(f"{lake.folder}/shop/orders")
    assert dict(rows.dtypes)["n"] == "bigint"
    if key:
        found = {row.id: row.asDict() for row in rows.select("id", "name", "n").collect()}
        assert found == database.states["shop.orders"]
    else:
        assert rows.count() == database.sent["shop.orders"]
        assert rows.where("n IS NULL").count() == 0


@pytest.mark.parametrize("form", get_args(Form))
def test_columns_of_others_keep_their_values(lake: Lake, form: Form) -> None:
    """A column that somebody added and filled stays as it is until events name it, though inserts of rows that are
    there come again. The column's former values stay, and the table's type."""
    given: dict[str, Any] = {"schema": None, "format": form, "key": ("id",)}
    database, place = Database(form, ["shop.orders"], 5, says_columns=True), f"delta.`{lake.folder}/shop/orders`"
    lake.tube.load("cdc", first := database.change(30))
    lake.run(**given)
    states = database.states["shop.orders"]
    lake.spark.sql(f"ALTER TABLE {place} ADD COLUMN Note STRING")
    lake.spark.sql(f"UPDATE {place} SET note = 'mine'")
    again = json.loads(first[0].payload)
    if form == "debezium-json":
        again["payload"]["source"]["pos"] = 999
        row = again["payload"]["after"]
    else:
        again |= {"id": 999, "es": 9_999}
        row = again["data"][0]
    row["id"] = str(min(states)) if form == "canal-json" else min(states)
    row["name"] = "again"
    lake.tube.load("cdc", [NewMessage(0, json.dumps(again).encode())])
    lake.run(**given)
    rows = {row["id"]: (row["name"], row["Note"]) for row in lake.rows("shop.orders", ["id", "name", "Note"])}
    assert rows == {key: (state["name"], "mine") for key, state in states.items()} | {min(states): ("again", "mine")}


@pytest.mark.parametrize("writer", WRITERS)
def test_limit_of_bad_records_for_each_table(lake: Lake, writer: str) -> None:
    """A table with too many stays behind, and has nothing of the round; the others have their rows."""
    database = Database("canal-json", ["shop.orders", "crm.orders"], 3)
    bad = {"database": "shop", "table": "orders", "type": "INSERT", "id": 9, "es": 9, "data": [{"id": "x"}]}
    lake.tube.load("cdc", [*database.change(30), *[NewMessage(0, json.dumps(bad).encode())] * 3])
    given = {"writer": writer, "bad_records": f"{lake.folder}/bad"}
    with pytest.raises(StreamsLeftBehind, match=r"but all others were: shop.orders: .*3"):
        lake.run(**given, max_bad_records=2)
    assert len(lake.rows("crm.orders", ["id"])) == database.sent["crm.orders"]
    assert lake.rows("shop.orders", ["id"]) == []
    lake.run(**given, max_bad_records=3)
    assert len(lake.rows("shop.orders", ["id"])) == database.sent["shop.orders"]


def test_groups_share_a_lake(lake: Lake) -> None:
    """A group's reset takes the tables of that group alone, though the counts table has others' too."""
    key = {"schema": None, "key": ("pkNames",), "consumer_group": "crm", "topics": ("logs",)}
    states = {}
    for topic, table, given in (("cdc", "shop.orders", {"schema": None}), ("logs", "crm.orders", key)):
        database = Database("canal-json", [table], 4, says_columns=True, keys={table: ["id"]})
        lake.tube.load(topic, database.change(20))
        lake.run(**given)
        states[table] = database
    for topic, given in (("cdc", {"schema": None}), ("logs", key)):
        settings = replace(lake.settings, **given, starting_offsets="latest")
        Ingest(lake.spark, settings=settings).reset_offsets([topic])
    for topic, table, given in (("cdc", "shop.orders", {"schema": None}), ("logs", "crm.orders", key)):
        lake.tube.load(topic, states[table].change(20))
        lake.run(**given)
    assert len(lake.rows("shop.orders", ["id"])) == states["shop.orders"].sent["shop.orders"]
    rows = {row["id"]: row for row in lake.rows("crm.orders", ["id", "name", "n"])}
    assert rows == states["crm.orders"].states["crm.orders"]


def test_columns_that_delta_fills(lake: Lake) -> None:
    """Events do not name columns that Delta computes in a table made by hand, so rows leave them out."""
    place = f"delta.`{lake.folder}/shop/orders`"
    lake.spark.sql(
        f"CREATE TABLE {place} (id BIGINT, name STRING, n INT, even BOOLEAN GENERATED ALWAYS AS (id % 2 = 0)) "
        "USING delta PARTITIONED BY (even)"
    )
    database = Database("canal-json", ["shop.orders"], 6, says_columns=True)
    for _ in range(2):
        lake.tube.load("cdc", database.change(20))
        lake.run(schema=None, evolve=True)
    rows = lake.rows("shop.orders", ["id", "even"])
    assert len(rows) == database.sent["shop.orders"]
    assert all(row["even"] == (row["id"] % 2 == 0) for row in rows)


def test_events_say_the_key_of_each_table(lake: Lake) -> None:
    """Keys of one column and of two, in another order than the columns'; a table without one is in the table for the
    rest."""
    database = Database("canal-json", TABLES, 9, says_columns=True)
    database.keys |= {"shop.orders": ["id"], "crm.orders": ["N", "id"]}
    given: dict[str, Any] = {"schema": None, "key": ("pkNames",), "max_offsets_per_trigger": 40}
    for seed in range(3):
        lake.tube.load("cdc", [*database.change(60), database.ddl("shop.orders")])
        lake.run_killed(seed, **given)
    database.keys["crm.orders"] = ["id", "n"]
    lake.tube.load("cdc", database.change(60))
    lake.run(**given)
    for table in ("shop.orders", "crm.orders"):
        rows = lake.rows(table, ["id", "name", "n"])
        assert {row["id"]: row for row in rows} == database.states[table], table
        assert len(rows) == len(database.states[table])
    assert set(lake.to_rest) == {ToRest("crm._users")}
    assert len(lake.rows("_tubeclient._rest", ["value"])) == database.sent["crm._users"]
    properties = DeltaTable(f"{lake.folder}/crm/orders").metadata().configuration
    assert properties["tubeclient.key"] == "n,id"


@pytest.mark.parametrize(("key", "expected"), [(["id", "name"], "the pkNames id, name"), ([], "no pkNames")])
def test_changed_or_missing_key(lake: Lake, key: list[str], expected: str) -> None:
    """A table stays behind unchanged if its key changes or goes, and other tables go on."""
    database = Database("canal-json", TABLES[:2], 10, says_columns=True, keys={one: ["id"] for one in TABLES})
    given: dict[str, Any] = {"schema": None, "key": ("pkNames",)}
    lake.tube.load("cdc", database.change(30))
    lake.run(**given)
    before = {row["id"]: row for row in lake.rows("shop.orders", ["id", "name", "n"])}
    assert before == database.states["shop.orders"]
    database.keys["shop.orders"] = key
    lake.tube.load("cdc", database.change(30))
    for _ in range(2):
        with pytest.raises(StreamsLeftBehind, match=f"its key is id, but events have {expected}"):
            lake.run(**given)
        assert {row["id"]: row for row in lake.rows("shop.orders", ["id", "name", "n"])} == before
    assert {row["id"]: row for row in lake.rows("crm.orders", ["id", "name", "n"])} == database.states["crm.orders"]


@pytest.mark.parametrize("writer", WRITERS)
def test_rows_in_the_rest_define_no_later_table(lake: Lake, writer: str) -> None:
    """A table gets a primary key, while another one that stays behind has the older rows read again in each run."""
    database = Database("canal-json", TABLES[:2], 11, says_columns=True, keys={"shop.orders": ["id"]})
    given: dict[str, Any] = {"schema": None, "key": ("pkNames",)}
    database.tables = ["shop.orders"]
    lake.tube.load("cdc", database.change(10))
    lake.run(**given)
    database.tables = TABLES[:2]
    database.keys["shop.orders"] = ["id", "n"]
    lake.tube.load("cdc", database.change(20))
    with suppress(StreamsLeftBehind):
        lake.run(**given)
    in_rest = database.sent["crm.orders"]
    database.keys["crm.orders"] = ["id"]
    database.tables = ["crm.orders"]
    database.states["crm.orders"].clear()  # the rows before the key are in the table for the rest
    for _ in range(3):
        lake.tube.load("cdc", database.change(10))
        with pytest.raises(StreamsLeftBehind, match=r"shop\.orders") as caught:
            lake.run(**given)
        assert "crm.orders" not in str(caught.value)
        rows = lake.rows("crm.orders", ["id", "name", "n"])
        assert {row["id"]: row for row in rows} == database.states["crm.orders"]
    assert len(lake.rows("_tubeclient._rest", ["value"])) == in_rest


def test_advice_for_a_changed_key(lake: Lake) -> None:
    """Also those before the change that are of its round."""
    table = "shop.orders"
    database = Database("canal-json", [table], 12, says_columns=True, keys={table: ["id"]})
    given: dict[str, Any] = {"schema": None, "key": ("pkNames",)}
    lake.tube.load("cdc", [NewMessage(0, one.payload) for one in database.change(10)])
    lake.run(**given)
    lake.tube.load("cdc", [NewMessage(0, one.payload) for one in database.change(10)])
    before = dict(database.states[table])
    database.keys[table] = ["id", "n"]
    lake.tube.load("cdc", [NewMessage(0, one.payload) for one in database.change(10)])
    with pytest.raises(StreamsLeftBehind, match="Write the rows before the change with --until, once"):
        lake.run(**given)
    lake.run(**given, until=json.dumps({"1:cdc:0": 20 * 28, "1:cdc:10000": 0}))
    assert {row["id"]: row for row in lake.rows(table, ["id", "name", "n"])} == before


def test_key_that_appears_within_a_round(lake: Lake) -> None:
    """A table whose key appears within a round stays behind until a job names the key."""
    table = "shop.orders"
    database = Database("canal-json", TABLES[:2], 13, says_columns=True, keys={"crm.orders": ["id"]})
    given: dict[str, Any] = {"schema": None, "key": ("pkNames",)}
    lake.tube.load("cdc", [NewMessage(0, one.payload) for one in database.change(20)])
    database.keys[table] = ["id"]
    lake.tube.load("cdc", [NewMessage(0, one.payload) for one in database.change(20)])
    for _ in range(2):
        with pytest.raises(StreamsLeftBehind, match=r"no pkNames\. Leave it out with --stream '!shop\.orders'"):
            lake.run(**given)
    lake.run(**given, streams=(f"!{table}",))
    assert {row["id"]: row for row in lake.rows("crm.orders", ["id", "name", "n"])} == database.states["crm.orders"]
    target = f"{lake.folder}/own/{{database}}/{{table}}"
    lake.run(schema=None, key=("id",), streams=(table,), consumer_group="own", target=target)
    assert {row["id"]: row for row in lake.rows(f"own.{table}", ["id", "name", "n"])} == database.states[table]


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Decimal) else value


def test_without_evolve_a_table_keeps_its_columns(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    database = Database("canal-json", ["shop.orders"], 6, says_columns=True)
    lake.tube.load("cdc", database.change(10))
    lake.run(schema=None)
    database.add("shop.orders", "more")
    lake.tube.load("cdc", database.change(10))
    lake.run(schema=None)
    names = DeltaTable(f"{lake.folder}/shop/orders").schema().to_arrow().names
    assert list(names)[:3] == ["id", "name", "n"]
    assert "more" not in list(names)
    assert "events of shop.orders have columns that its table lacks: more; evolve to add them" in caplog.text
    assert len(lake.rows("shop.orders", ["id"])) == database.sent["shop.orders"]


def test_events_without_columns(lake: Lake) -> None:
    """Events without columns go to the rest, and a table follows once events name columns."""
    silent = Database("canal-json", ["shop.orders"], 7)
    lake.tube.load("cdc", silent.change(10))
    lake.run(schema=None)
    assert len(lake.rows("_tubeclient._rest", ["value"])) == 10
    assert ToRest("shop.orders") in lake.to_rest
    telling = Database("canal-json", ["shop.orders"], 8, says_columns=True)
    lake.tube.load("cdc", telling.change(20))
    lake.run(schema=None)
    rest = len(lake.rows("_tubeclient._rest", ["value"]))
    assert (rest, len(lake.rows("shop.orders", ["id"]))) == (10, 20)
    # Of a table that somebody removed only events say what it was.
    for count in (5, 0):  # with and without new ones
        shutil.rmtree(lake.folder / "shop" / "orders")
        lake.tube.load("cdc", telling.change(count))
        lake.run(schema=None)
        assert len(lake.rows("shop.orders", ["id"])) == 25
    assert len(lake.rows("_tubeclient._rest", ["value"])) == 10


@pytest.mark.parametrize("tables", [TABLES[:1], TABLES[:2]])
def test_removed_table_with_rows_in_the_rest(lake: Lake, tables: list[str]) -> None:
    """Rows of before a table got its key say nothing of it, also while it waits for events, and another table's."""
    database = Database("canal-json", tables, 15, says_columns=True)
    given: dict[str, Any] = {"schema": None, "key": ("pkNames",)}

    def run(count: int) -> None:
        lake.tube.load("cdc", [NewMessage(0, one.payload) for one in database.change(count)])
        lake.run(**given)

    run(20)
    in_rest = 0
    for table in tables:
        database.keys[table] = ["id"]
        database.states[table].clear()
        in_rest += database.sent[table]
        run(20)
    for count in (0, 20):
        for table in tables:
            rows = {row["id"]: row for row in lake.rows(table, ["id", "name", "n"])}
            assert rows == database.states[table]
        shutil.rmtree(lake.folder / "shop")
        shutil.rmtree(lake.folder / "crm", ignore_errors=True)
        run(count)
    assert len(lake.rows("_tubeclient._rest", ["value"])) == in_rest


@pytest.mark.parametrize("refused", [False, True])
def test_a_removed_table_takes_no_rows_of_others(lake: Lake, refused: bool) -> None:
    """Its run begins before the others' rows end, and its event comes late, or is refused."""

    def event(table: str, number: int, partition: int = 0, more: Sequence[str] = ()) -> NewMessage:
        row = dict.fromkeys(("id", *more), str(number))
        says = {"database": "shop", "table": table, "type": "INSERT", "es": 9, "ts": 9, "isDdl": False, "old": None}
        says |= {"data": [row], "mysqlType": dict.fromkeys(row, "bigint")}
        return NewMessage(partition, json.dumps(says).encode())

    lake.tube.load("cdc", [*(event("own", one) for one in range(9)), event("gone", 1), event("own", 10, 10_000)])
    lake.run(schema=None)
    shutil.rmtree(lake.folder / "shop" / "gone")
    more = ("n", "N") if refused else ()
    lake.tube.load("cdc", [*(event("own", one, 10_000) for one in range(11, 19)), event("gone", 2, more=more)])
    for _ in range(2):
        with suppress(StreamsLeftBehind) if refused else nullcontext():
            lake.run(schema=None, max_offsets_per_trigger=4)
    assert sorted(row["id"] for row in lake.rows("shop.own", ["id"])) == [*range(9), *range(10, 19)]


def test_column_that_becomes_text(lake: Lake) -> None:
    """A stream stays behind if a column becomes text, until the table's column is text too."""
    table = "shop.orders"
    database = Database("canal-json", [table], 16, says_columns=True)
    lake.tube.load("cdc", database.change(10))
    lake.run(schema=None)
    event = {"database": "shop", "table": "orders", "type": "INSERT", "es": 9, "ts": 9, "isDdl": False, "old": None}
    event |= {"data": [{"id": "1000", "n": "01"}], "mysqlType": {"id": "bigint", "n": "varchar(9)"}}
    lake.tube.load("cdc", [NewMessage(0, json.dumps(event).encode())])
    for _ in range(2):
        with pytest.raises(StreamsLeftBehind, match="events have STRING in n, which is int in the table"):
            lake.run(schema=None)
    assert len(lake.rows(table, ["id"])) == 10
    place = f"delta.`{lake.folder}/shop/orders`"
    for sql in (
        "SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "RENAME COLUMN n TO old",
        "ADD COLUMN n STRING",
    ):
        lake.spark.sql(f"ALTER TABLE {place} {sql}").collect()
    lake.run(schema=None)
    rows = lake.spark.table(place)
    assert [row.n for row in rows.where("id = 1000").collect()] == ["01"]
    assert rows.count() == 11


def test_what_tells_tables_apart_stays(lake: Lake) -> None:
    """A table that lags is known by its stream's name, which would be another one."""
    lake.tube.load("cdc", Database("canal-json", TABLES, 14).change(10))
    lake.run()
    rows = len(lake.rows("shop.orders", ["id"]))
    with pytest.raises(
        ConfigurationError, match=r"are by table-by database\.table, .* writes them by table-by \$\.t, "
    ):
        lake.run(table_by="$.t", format="json", target=f"{lake.folder}/_tubeclient/{{stream}}")
    lake.run(table_by="topic", target=f"{lake.folder}/_tubeclient/{{stream}}", consumer_group="other")
    lake.run()
    assert len(lake.rows("shop.orders", ["id"])) == rows


@pytest.mark.merge
def test_tables_chosen_by_pattern(lake: Lake) -> None:
    """A run writes only tables that its patterns choose, and a run of all catches up the others."""
    database = Database("canal-json", TABLES, 3)
    lake.tube.load("cdc", database.change(80))
    lake.run(streams=("*.orders", "!crm.*"))
    assert len(lake.rows("shop.orders", ["id"])) == database.sent["shop.orders"]
    assert sorted(one.name for one in lake.folder.iterdir()) == ["_tubeclient", "shop"]
    lake.tube.load("cdc", database.change(80))
    lake.run()
    assert {one: len(lake.rows(one, ["id"])) for one in TABLES} == database.sent


def test_tables_in_a_catalog_whose_schemas_are_made(lake: Lake) -> None:
    database = Database("canal-json", ["tby_shop.orders", "tby_crm.orders"], 4)
    lake.tube.load("cdc", database.change(40))
    lake.run(target="{database}.t_{table}")
    try:
        for table in database.tables:
            schema, _, name = table.partition(".")
            assert lake.spark.table(f"{schema}.t_{name}").count() == database.sent[table]
        assert lake.spark.table("_tubeclient.t__counts").count() > 0
    finally:
        for schema in ("tby_shop", "tby_crm", "_tubeclient"):
            lake.spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE").collect()


@pytest.mark.merge("tasks")
@pytest.mark.parametrize("writer", WRITERS)
def test_topics_tags_and_attributes(lake: Lake, writer: str) -> None:
    def message(text: bytes, tag: str, **attributes: str) -> NewMessage:
        return NewMessage(0, *encode_payload(text, encode_attributes(attributes, tag, "202611301000" if tag else "")))

    raw: dict[str, Any] = {"format": "raw", "schema": None, "writer": writer, "topics": ("cdc", "logs")}
    lake.tube.load("cdc", [message(b"1", "a", k="x"), message(b"2", "", k="y"), message(b"3", "b")])
    lake.tube.load("logs", [message(b"4", "a", k="x")])
    for table_by, expected in (
        ("topic", {"cdc": [b"1", b"2", b"3"], "logs": [b"4"]}),
        ("tag", {"a": [b"1", b"4"], "b": [b"3"], "_rest": [b"2"]}),
        ("attribute.k", {"x": [b"1", b"4"], "y": [b"2"], "_rest": [b"3"]}),
    ):
        where = f"{lake.folder}/{table_by}/{{stream}}"
        lake.run(**raw, table_by=table_by, target=where, consumer_group=table_by)
        for stream, values in expected.items():
            rows = DeltaTable(where.replace("{stream}", stream)).to_pyarrow_table(columns=["value"]).to_pylist()
            assert sorted(row["value"] for row in rows) == values, (table_by, stream)
