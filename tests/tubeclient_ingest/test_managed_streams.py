"""The streams of an InLong group by the definitions of InLong's Manager, and without it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.inlong_manager import KEY, USER, field, group, managing, stream
from tests.tubeclient_ingest.lake import killed_at
from tests.tubeclient_ingest.test_streams import Shop
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient_ingest.commits.stream_ends import StreamsLeftBehind
from tubeclient_ingest.rounds.stream_tables import StreamTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

OF_SHOP = group(mqResource="shop")
ID = field("id", "bigint")


def of(address: str, **more: Any) -> dict[str, Any]:
    return {"inlong_manager": address, "manager_options": {"user": USER, "key": KEY}, **more}


def streams(**more: Any) -> dict[str, Any]:
    return {name: stream(name, ID, dataType="JSON", **more) for name in ("orders", "clicks")}


@pytest.fixture
def shop(tmp_path: Path, delta_spark: SparkSession) -> Iterator[Shop]:
    with EmbeddedTubeMQ(tmp_path / "tube", [TopicConfig("shop", 2, 1)]) as tube:
        yield Shop(tube, delta_spark, tmp_path)


def test_manager_goes_away(shop: Shop) -> None:
    """Without Manager, streams that have a table go on, and new ones are left behind."""
    shop.send("orders", "clicks", "views")
    with managing(streams(), OF_SHOP) as manager:
        address = manager.address
        assert shop.run(**of(address)).rows == 30
    assert (shop.ids("orders"), shop.ids("clicks")) == ([*range(10)], [*range(10)])
    # Nobody answers there any more: what is new stays behind, and what has a table goes on.
    shop.send("orders", "clicks", "payments")
    with pytest.raises(StreamsLeftBehind, match=r"1 stream .*payments: .*its records are not defined: .*no answer"):
        shop.run(**of(address))
    assert (shop.ids("orders"), shop.ids("clicks")) == ([*range(20)], [*range(20)])
    with managing({**streams(), "payments": stream("payments", ID, dataType="JSON")}, OF_SHOP) as manager:
        assert shop.run(**of(manager.address)).rows == 10
    assert shop.ids("payments") == [*range(10)]
    assert len(DeltaTable(f"{shop.lake}/_rest").to_pyarrow_table()) == 10


def test_names_that_differ_by_case_in_a_catalog(shop: Shop) -> None:
    """In a catalog, a stream with capitals has a table if Manager defines no other of its name."""
    known = {name: stream(name, ID, dataType="JSON") for name in ("Orders", "Views", "views")}
    shop.send("Orders", "orders", "Views", "views")
    shop.spark.sql("CREATE DATABASE of_managed")
    try:
        with managing(known, OF_SHOP) as manager:
            shop.run(**of(manager.address, target="of_managed.{stream}"))
        assert {one.stream for one in shop.to_rest} == {"orders", "Views"}
        assert [shop.spark.table(f"of_managed.{name}").count() for name in ("orders", "views", "_rest")] == [10, 10, 20]
    finally:
        shop.spark.sql("DROP DATABASE of_managed CASCADE")


def test_undefined_streams_without_manager(shop: Shop) -> None:
    """A run dies before the counts table knows the rest's rows. The next one has no Manager."""
    shop.send("orders", "views")

    def rest() -> int:
        return len(DeltaTable(f"{shop.lake}/_rest").to_pyarrow_table())

    with managing(streams(), OF_SHOP) as manager:
        address = manager.address
        killed_at(StreamTables, "_completed", after=False, run=lambda: shop.run(**of(address)))
    shop.send("orders", "views", "payments")
    with pytest.raises(StreamsLeftBehind, match=r"1 stream .*payments: "):
        shop.run(**of(address))
    assert rest() == 20
    shop.send("views", "payments")
    # Its first rows are in no table, and that is not passed over.
    with managing(streams(), OF_SHOP) as manager, pytest.raises(StreamsLeftBehind, match=r"has no stream payments"):
        shop.run(**of(manager.address))
    assert rest() == 30
    late = {name: stream(name, ID, dataType="JSON") for name in ("payments", "views")}
    with managing({**streams(), **late}, OF_SHOP) as manager:
        shop.run(**of(manager.address))
    assert (shop.ids("payments"), rest()) == ([*range(20)], 30)


def test_changed_definitions(shop: Shop) -> None:
    """A new field widens a stream's table if evolve is set; any other change stops the stream."""
    with managing(streams(), OF_SHOP) as manager:
        shop.send("orders", "clicks")
        shop.run(**of(manager.address))
    wider = {**streams(), "orders": stream("orders", ID, field("name", "string"), dataType="JSON")}
    shop.send("orders", "clicks")
    with managing(wider, OF_SHOP) as manager:
        with pytest.raises(StreamsLeftBehind, match=r"orders: .*lacks columns of the job's rows: name string"):
            shop.run(**of(manager.address))
        assert shop.run(**of(manager.address, evolve=True)).rows == 10
    assert {"id", "name"} <= {one.name for one in DeltaTable(f"{shop.lake}/orders").schema().fields}
    other = {**wider, "clicks": stream("clicks", field("id", "string"), dataType="JSON")}
    shop.send("orders", "clicks")
    changed = r"1 stream .*clicks: .*its definition .* id was BIGINT and is STR"
    with managing(other, OF_SHOP) as manager, pytest.raises(StreamsLeftBehind, match=changed):
        shop.run(**of(manager.address, evolve=True))
    assert (shop.ids("orders"), shop.ids("clicks")) == ([*range(30)], [*range(20)])


def test_unset_definition_property(shop: Shop) -> None:
    """A table whose definition property the user unsets stores the next definition."""
    of_orders = f"{shop.lake}/orders"

    def run(names: str, record: bytes) -> str:
        fields = [field(name, "string") for name in names]
        pack = encode_pack([RecordGroup({"groupId": "shop", "streamId": "orders", "dt": "0"}, [record])], made_ms=0)
        shop.tube.load("shop", [NewMessage(0, pack)])
        with managing({"orders": stream("orders", *fields, dataType="CSV", dataSeparator="44")}, OF_SHOP) as manager:
            shop.run(**of(manager.address))
            return manager.address

    run("ab", b"a,b")
    assert not [one for one in DeltaTable(of_orders).history() if one["operation"] == "SET TBLPROPERTIES"]
    with pytest.raises(StreamsLeftBehind, match="UNSET TBLPROPERTIES"):
        run("ba", b"b,a")
    shop.spark.sql(f"ALTER TABLE delta.`{of_orders}` UNSET TBLPROPERTIES ('tubeclient.inlongStream')").collect()
    address = run("ba", b"b,a")
    with pytest.raises(StreamsLeftBehind, match="the order of fields changed"):
        run("ab", b"b,a")
    shop.run(**of(address))  # where nobody answers any more
    assert DeltaTable(of_orders).to_pyarrow_table(columns=["a", "b"]).to_pylist() == [{"a": "a", "b": "b"}] * 4


def test_changed_definition_with_records_unread(shop: Shop, tmp_path: Path) -> None:
    """What the error advises keeps the records from before the change as they were meant."""
    payers = (stream("orders", *(field(name, "string") for name in names), dataType="CSV") for names in ("ab", "ba"))
    former, changed = payers

    def send(record: bytes) -> None:
        pack = encode_pack([RecordGroup({"groupId": "shop", "streamId": "orders", "dt": "0"}, [record])], made_ms=0)
        shop.tube.load("shop", [NewMessage(0, pack)])

    send(b"1|2")
    with managing({"orders": former}, OF_SHOP) as manager:
        shop.run(**of(manager.address))
    send(b"3|4")
    until = shop.tube.bounds("shop").max_offset
    send(b"6|5")
    with managing({"orders": changed}, OF_SHOP) as manager:
        with pytest.raises(StreamsLeftBehind, match="First write the records from before the change") as caught:
            shop.run(**of(manager.address))
        table = DeltaTable(f"{shop.lake}/orders")
        (tmp_path / "former.json").write_text(table.metadata().configuration["tubeclient.inlongStream"])
        assert "--stream orders, with --until, and with schema-from-inlong" in str(caught.value)
        before = {"streams": ("orders",), "until": json.dumps({"1:shop:0": until, "1:shop:10000": 0})}
        shop.run(schema_from_inlong=str(tmp_path / "former.json"), **before)
        shop.spark.sql(
            f"ALTER TABLE delta.`{shop.lake}/orders` UNSET TBLPROPERTIES ('tubeclient.inlongStream')"
        ).collect()
        shop.run(**of(manager.address))
    rows = DeltaTable(f"{shop.lake}/orders").to_pyarrow_table(columns=["a", "b"]).to_pylist()
    assert sorted((row["a"], row["b"]) for row in rows) == [("1", "2"), ("3", "4"), ("5", "6")]


def test_table_of_a_stream_in_other_case(shop: Shop) -> None:
    """In a catalog, a stream stays behind if its table is one's whose name differs in case."""
    known = {"Orders": stream("Orders", ID, dataType="JSON")}
    shop.spark.sql("CREATE DATABASE of_case")
    try:
        shop.send("Orders")
        with managing(known, OF_SHOP) as manager:
            shop.run(**of(manager.address, target="of_case.{stream}"))
        known["orders"] = stream("orders", ID, dataType="JSON")
        for count in (20, 30):
            shop.send("Orders", "orders")
            taken = "1 stream .*orders: .*of_case.orders is the table of stream Orders"
            with managing(known, OF_SHOP) as manager, pytest.raises(StreamsLeftBehind, match=taken):
                shop.run(**of(manager.address, target="of_case.{stream}"))
            ids = shop.spark.table("of_case.orders").select("id").collect()
            assert sorted(row.id for row in ids) == [*range(count)]
        assert shop.spark.table("of_case._counts").where("stream = 'orders'").count() == 0
    finally:
        shop.spark.sql("DROP DATABASE of_case CASCADE")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"manager_options": {"user": USER, "key": "wrong"}}, "rejects these credentials"),
        ({"topics": ("other",)}, "has group shop on the topic shop, but the job reads other; set topics to shop"),
        ({"inlong_group": "shop2"}, "Inlong group does not exist"),
    ],
)
def test_settings_that_manager_refuses(shop: Shop, changes: dict[str, Any], error: str) -> None:
    """The job fails before it writes anything if Manager refuses its settings."""
    shop.tube.create_topic(TopicConfig("other", 1, 1))
    with managing(streams(), OF_SHOP) as manager, pytest.raises(TubeError, match=error):
        shop.run(**{**of(manager.address), **changes})
    assert not shop.lake.exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"inlong_manager": "http://m:8083", "schema": "id INT", "format": "json"},
            "inlong-manager, schema .* keep one",
        ),
        (
            {"inlong_manager": "http://m:8083", "manager_options": {"password": "x"}},
            "password in .* is unknown",
        ),
        (
            {"inlong_manager": "http://user:secret@m:8083"},
            r"Manager must look like http://host:8083, without user(?!.*secret)",
        ),
    ],
)
def test_settings_that_exclude_each_other(shop: Shop, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        shop.job(**changes)
