"""Streams of a group that were in the table for the rest, that stayed behind or were left out: no record is lost or
doubled."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq import EmbeddedTubeMQ, TopicConfig
from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient.inlong_manager import managing, stream
from tests.tubeclient_ingest.lake import cut_history, each_commit
from tests.tubeclient_ingest.test_managed_streams import ID, OF_SHOP, of
from tests.tubeclient_ingest.test_streams import Shop
from tubeclient.errors import TubeError
from tubeclient.inlong import RecordGroup, encode_pack
from tubeclient_ingest.commits.beginning import UnknownRows
from tubeclient_ingest.commits.stream_ends import StreamsLeftBehind
from tubeclient_ingest.rounds import definitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(tmp_path: Path, delta_spark: SparkSession) -> Iterator[Shop]:
    topics = [TopicConfig("shop", 2, 1), TopicConfig("more", 2, 1)]
    with EmbeddedTubeMQ(tmp_path / "tube", topics) as tube:
        yield Shop(tube, delta_spark, tmp_path)


def everywhere(shop: Shop, name: str) -> list[int]:
    """The numbers of a stream's records in its own table (typed) and in the one for the rest."""
    found = shop.ids(name) if DeltaTable.is_deltatable(f"{shop.lake}/{name}") else []
    if DeltaTable.is_deltatable(f"{shop.lake}/_rest"):
        rows = DeltaTable(f"{shop.lake}/_rest").to_pyarrow_table(columns=["value", "inlongStreamId"]).to_pylist()
        found += [int(r["value"].decode().strip('{"id: }')) for r in rows if r["inlongStreamId"] == name]
    return sorted(found)


def defined(folder: Path, *names: str, ddl: str = "id BIGINT") -> dict[str, Any]:
    for name in names:
        (folder / f"{name}.ddl").write_text(ddl)
    return {"format": "json", "schema": f"{folder}/{{stream}}.ddl"}


def test_wrong_first_definition(shop: Shop, tmp_path: Path) -> None:
    """A stream has each record once if its first definition is wrong and the user corrects it."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views")
    shop.run(**typed)
    defined(tmp_path, "views", ddl="id BIGNT")
    shop.send("orders", "views")
    with pytest.raises(StreamsLeftBehind, match="views"):
        shop.run(**typed)
    defined(tmp_path, "views")
    shop.send("orders", "views")
    shop.run(**typed)
    assert everywhere(shop, "views") == [*range(30)]


def test_defined_while_the_counts_table_forgets(shop: Shop, tmp_path: Path) -> None:
    """A stream has each record once if its definition comes as the counts table loses its history."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views")
    shop.run(**typed)
    counts = f"delta.`{shop.lake}/_counts`"
    shop.spark.sql(f"ALTER TABLE {counts} SET TBLPROPERTIES ('mine' = 'yes')").collect()
    cut_history(shop.lake / "_counts", to_others=False)
    defined(tmp_path, "views")
    shop.send("orders", "views")
    shop.run(**typed, starting_offsets="target")
    assert everywhere(shop, "views") == shop.ids("orders") == [*range(20)]


def test_defined_before_the_counts_table_forgets(shop: Shop, tmp_path: Path) -> None:
    """Only the counts table and the one for the rest know since when it has a table."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views")
    shop.run(**typed)
    defined(tmp_path, "views")
    for _ in range(2):
        shop.send("orders")
        shop.run(**typed)
    cut_history(shop.lake / "_counts")
    shop.send("orders", "views")
    shop.run(**typed, starting_offsets="target")
    assert everywhere(shop, "views") == [*range(20)]
    assert shop.ids("views") == [*range(10, 20)]
    assert shop.ids("orders") == [*range(40)]


@pytest.mark.parametrize(("cut", "table"), [((), "views"), ((), "_rest"), (("_counts", "orders"), "views")])
def test_restored_table_after_a_reset_to_group(shop: Shop, tmp_path: Path, cut: tuple[str, ...], table: str) -> None:
    """The reset skips no row, and the one table still has the first rows of views, the other those since."""
    typed = {**defined(tmp_path, "orders"), "offsets_table": f"{tmp_path}/offsets"}
    shop.send("orders", "views")
    shop.run(**typed)
    defined(tmp_path, "views")
    shop.send("orders", "views")
    shop.run(**typed)
    for name in cut:
        cut_history(shop.lake / name)
    shop.job(**typed, starting_offsets="group").reset_offsets(["shop"])
    shop.send("orders", "views")
    shop.run(**typed)
    shop.spark.sql(f"RESTORE TABLE delta.`{shop.lake}/{table}` TO VERSION AS OF 0").collect()
    shop.run(**typed)
    assert everywhere(shop, "views") == shop.ids("orders") == [*range(30)]
    assert shop.ids("views") == [*range(10, 30)]


def test_tables_without_a_history(shop: Shop, tmp_path: Path) -> None:
    """Rows do not come again into tables without a history after a reset to group."""
    typed = {**defined(tmp_path, "orders"), "offsets_table": f"{tmp_path}/offsets"}
    for _ in range(2):
        shop.send("orders", "views")
        shop.run(**typed)
    for name in ("_counts", "_rest"):
        cut_history(shop.lake / name)
    error = r"_rest.* does not say where they end: .* With target they would be written again"
    with pytest.raises(UnknownRows, match=error):
        shop.run(**typed, starting_offsets="target")
    shop.job(**typed, starting_offsets="group").reset_offsets(["shop"])
    shop.send("orders", "views")
    shop.run(**typed)
    assert everywhere(shop, "views") == shop.ids("orders") == [*range(30)]


def dies_after(stream: str) -> Callable[[Any, Any, Callable[[], None]], None]:
    """Before the first commit to another table that follows one of the stream's with rows."""
    seen: list[Any] = []

    def dies(table: Any, record: Any, commit: Callable[[], None]) -> None:
        own = table.where.rstrip("`").endswith(stream)
        if seen and not own:
            raise KeyboardInterrupt
        commit()
        if own and record.counts:
            seen.append(record)

    return dies


def dies_before_counts(run: Callable[[], object]) -> None:
    def dies(table: Any, record: Any, commit: Callable[[], None]) -> None:
        if table.where.rstrip("`").endswith("_counts"):
            raise KeyboardInterrupt
        commit()

    with each_commit(dies), pytest.raises(KeyboardInterrupt):
        run()


@pytest.mark.parametrize("by", ["a reset", "a loss"])
@pytest.mark.parametrize("table_is", ["ahead", "behind", "behind at last"])
def test_offsets_from_before_a_reset(shop: Shop, monkeypatch: pytest.MonkeyPatch, by: str, table_is: str) -> None:
    """The topic is created again while orders is left out, and its table has more or fewer commits than the counts
    table knows."""
    shop.send("orders", "clicks")
    shop.run()
    shop.send("orders", "clicks")
    if table_is == "ahead":
        dies_before_counts(shop.run)
    else:
        shop.run()
    restored = f"RESTORE TABLE delta.`{shop.lake}/orders` TO VERSION AS OF 1"
    if table_is == "behind":
        shop.spark.sql(restored).collect()
    shop.tube.delete_topic("shop")
    shop.tube.create_topic(TopicConfig("shop", 2, 1))
    accepts = {"source_options": {**shop.settings.source_options, "failOnDataLoss": "false"}}
    some: dict[str, Any] = {"streams": ("!orders",), **accepts}
    if by == "a reset":
        shop.job(**some).reset_offsets(["shop"])
    else:
        shop.run(**some)
    for _ in range(4):
        shop.send("orders", "clicks")
    shop.run(**some)
    if table_is == "behind at last":
        shop.spark.sql(restored).collect()
    monkeypatch.setattr("tubeclient_ingest.rounds.group_table._SAY_AGAIN", timedelta(0))
    if by == "a reset" and table_is != "ahead":
        # It lacks rows of before the reset, and nobody knows whether they are to come again. What the user says of
        # others does not count for it.
        error = r"orders: .* end at offsets from before shop was reset .* Restore the newest version from before"
        for chosen in (None, None, "target"):
            with pytest.raises(StreamsLeftBehind, match=error):
                shop.run(starting_offsets=chosen)
        shop.run(starting_offsets="target", streams=("orders",))
    shop.run()
    assert shop.numbers("clicks") == [*range(60)]
    assert shop.numbers("orders") == [*range(10 if "behind" in table_is else 20), *range(20, 60)]


def test_uncounted_table_before_a_reset(shop: Shop, tmp_path: Path) -> None:
    """Offsets of an uncounted table from before a reset never pass for offsets after it."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views")
    shop.run(**typed)
    defined(tmp_path, "views")
    dies_before_counts(lambda: shop.run(**typed))
    (tmp_path / "views.ddl").unlink()
    shop.tube.delete_topic("shop")
    shop.tube.create_topic(TopicConfig("shop", 2, 1))
    shop.job(**typed).reset_offsets(["shop"])
    shop.send("orders", "views")
    shop.run(**typed)
    defined(tmp_path, "views")
    shop.send("orders", "views")
    with suppress(StreamsLeftBehind):
        shop.run(**typed)
    shop.run(**typed, starting_offsets="target")
    assert everywhere(shop, "views") == shop.ids("orders") == [*range(30)]


@pytest.mark.parametrize("left_out", [False, True])
def test_reset_survives_a_cut_counts_table(shop: Shop, left_out: bool) -> None:
    """orders has no rows since the reset; or does not take part in it."""
    shop.settings = replace(shop.settings, offsets_table=str(shop.lake.parent / "offsets"))
    for _ in range(2):
        shop.send("orders", "clicks")
        shop.run()
    streams: dict[str, Any] = {"streams": ("!orders",)} if left_out else {}
    shop.job(starting_offsets="group", **streams).reset_offsets(["shop"])
    shop.send("clicks")
    shop.run(**streams)
    cut_history(shop.lake / "_counts")
    if left_out:
        with pytest.raises(
            UnknownRows, match=r"orders.* does not say .*[:.] [wW]ith target they would be written again. Reset"
        ):
            shop.run(starting_offsets="target")
        shop.job(starting_offsets="group").reset_offsets(["shop"])
        shop.run()
    else:
        shop.run(starting_offsets="target")
    assert (shop.numbers("orders"), shop.numbers("clicks")) == ([*range(20)], [*range(30)])


def test_reset_applies_to_a_dead_runs_table(shop: Shop) -> None:
    """And that did not take part in it. Nothing is asked: the reset says where all go on."""
    shop.settings = replace(shop.settings, offsets_table=str(shop.lake.parent / "offsets"))
    shop.send("orders", "clicks")
    shop.run()
    shop.send("orders", "clicks")
    dies_before_counts(shop.run)
    shop.run(streams=("!orders",))
    for _ in range(2):  # one is of tables that say it already
        shop.job(starting_offsets="group", streams=("!orders",)).reset_offsets(["shop"])
    shop.send("orders", "clicks")
    shop.run()
    assert shop.numbers("orders") == shop.numbers("clicks") == [*range(30)]


@pytest.mark.parametrize("orders_is", ["ahead of a loss", "put back over a reset", "without its rows"])
def test_decision_applies_to_one_stream(shop: Shop, orders_is: str) -> None:
    """The history of clicks is cut, and its line asks for target."""
    accepts: dict[str, Any] = {"source_options": {**shop.settings.source_options, "failOnDataLoss": "false"}}
    shop.settings = replace(shop.settings, offsets_table=str(shop.lake.parent / "offsets"))
    shop.send("orders", "clicks", "views")
    shop.run()
    for _ in range(3):
        shop.send("orders", "clicks", "views", count=4)
    if orders_is == "ahead of a loss":
        dies_before_counts(shop.run)
        shop.run(streams=("!orders",))
        lose_tail(shop, [end - 28 for end in ends_of(shop)])
        shop.run(streams=("!orders",), **accepts)
    elif orders_is == "put back over a reset":
        shop.run()
        shop.job(starting_offsets="group").reset_offsets(["shop"])
        shop.spark.sql(f"RESTORE TABLE delta.`{shop.lake}/orders` TO VERSION AS OF 1").collect()
    else:
        shop.run()
        shop.spark.sql(f"DELETE FROM delta.`{shop.lake}/orders`").collect()
    cut_history(shop.lake / "clicks")
    shop.send("orders", "clicks", "views", count=4)
    if orders_is == "ahead of a loss":
        with pytest.raises(
            StreamsLeftBehind, match=r"^1 stream could not be written.* clicks: .*once, with --stream clicks"
        ):
            shop.run()
    else:
        for chosen in (None, "target"):
            with pytest.raises(StreamsLeftBehind, match=r"clicks: .*; orders: .* with --stream orders and no other"):
                shop.run(starting_offsets=chosen)
    shop.run(starting_offsets="target", streams=("clicks",))
    if orders_is != "ahead of a loss":
        with pytest.raises(StreamsLeftBehind, match=r"^1 stream could not be written.* orders: "):
            shop.run()
        version = 3 if orders_is == "put back over a reset" else 2
        shop.spark.sql(f"RESTORE TABLE delta.`{shop.lake}/orders` TO VERSION AS OF {version}").collect()
    shop.run()
    assert shop.numbers("orders") == shop.numbers("clicks") == [*range(26)]


@pytest.mark.parametrize("died", ["orders ahead", "after RESTORE", ""])
def test_restored_table_asks_after_a_reset(shop: Shop, died: str) -> None:
    """Its number is the one that the counts table has, and it lacks rows that the reset skipped."""
    shop.settings = replace(shop.settings, offsets_table=str(shop.lake.parent / "offsets"))
    orders = f"delta.`{shop.lake}/orders`"
    shop.send("orders", "clicks")
    shop.run()
    shop.send("orders", "clicks")
    if died == "orders ahead":
        dies_before_counts(shop.run)
        shop.run(streams=("!orders",))
    else:
        shop.run()
    if died != "orders ahead":
        shop.spark.sql(f"RESTORE TABLE {orders} TO VERSION AS OF 1").collect()
    if died == "after RESTORE":
        with each_commit(dies_after_one_of("_counts")), pytest.raises(KeyboardInterrupt):
            shop.run()
    shop.job(starting_offsets="group", streams=("!orders",)).reset_offsets(["shop"])
    if died == "orders ahead":
        shop.spark.sql(f"RESTORE TABLE {orders} TO VERSION AS OF 1").collect()
    shop.send("orders", "clicks")
    with pytest.raises(StreamsLeftBehind, match=r"orders: .* before shop was reset .* Restore the newest version"):
        shop.run()
    shop.spark.sql(f"RESTORE TABLE {orders} TO VERSION AS OF 2").collect()
    shop.run()
    assert shop.numbers("orders") == shop.numbers("clicks") == [*range(30)]


def dies_after_one_of(name: str) -> Callable[[Any, Any, Callable[[], None]], None]:
    """After the next commit to the table."""

    def dies(table: Any, _: Any, commit: Callable[[], None]) -> None:
        commit()
        if table.where.rstrip("`").endswith(name):
            raise KeyboardInterrupt

    return dies


def test_reset_that_died_in_a_new_table(shop: Shop) -> None:
    """A reset that dies in a new table has no effect on a later reset."""
    shop.settings = replace(shop.settings, offsets_table=str(shop.lake.parent / "offsets"))
    some = {"streams": ("!orders",)}
    shop.send("orders", "clicks", count=20)
    shop.run(**some)
    shop.send("orders", "clicks")
    with each_commit(dies_after_one_of("orders")), suppress(KeyboardInterrupt):
        shop.job(starting_offsets="latest").reset_offsets(["shop"])
        shop.job(starting_offsets="group", **some).reset_offsets(["shop"])
    shop.job(starting_offsets='{"default": "earliest"}', **some).reset_offsets(["shop"])
    shop.run()
    assert shop.numbers("orders") == [*range(30)]


def test_target_does_not_accept_lost_rows(shop: Shop) -> None:
    """The choice of target for a cut counts table does not accept rows that other tables lost."""
    for _ in range(2):
        shop.send("orders", "clicks")
        shop.run()
    shop.spark.sql(f"DELETE FROM delta.`{shop.lake}/orders`").collect()
    cut_history(shop.lake / "_counts")
    for streams in ((), ("orders",), ("orders", "clicks")):
        with pytest.raises(UnknownRows, match=r"lake/orders. \(DELETE\) removed rows"):
            shop.run(starting_offsets="target", streams=streams)
    shop.spark.sql(f"RESTORE TABLE delta.`{shop.lake}/orders` TO VERSION AS OF 2").collect()
    shop.send("orders", "clicks")
    shop.run(starting_offsets="target")
    assert shop.numbers("orders") == shop.numbers("clicks") == [*range(30)]


def lose_tail(shop: Shop, ends: list[int]) -> None:
    """What the stores have past these offsets."""
    for store_id, end in enumerate(ends):
        shop.tube._thread.call(partial(shop.tube._store("shop", store_id, 1).truncate, end))


def ends_of(shop: Shop) -> list[int]:
    return [shop.tube.bounds("shop", store_id=one).max_offset for one in range(2)]


def test_a_loss_is_accepted_once_also_without_a_round(shop: Shop) -> None:
    """Of all that a run wrote which died: the brokers' data ends where the counts table has all rows."""
    shop.send("orders", "clicks")
    shop.run()
    ends = ends_of(shop)
    shop.send("orders", "clicks")
    dies_before_counts(shop.run)
    lose_tail(shop, ends)
    shop.run(source_options={**shop.settings.source_options, "failOnDataLoss": "false"})
    assert shop.run().rows == 0
    for _ in range(9):
        shop.send("orders", "clicks", count=1)
    shop.run()
    assert shop.numbers("orders") == shop.numbers("clicks") == [*range(29)]


def test_accepted_loss_of_a_dead_run(shop: Shop) -> None:
    """The next run goes on without asking if a run accepted a loss and died."""
    for _ in range(6):
        shop.send("orders", "clicks", count=2)
    shop.run()
    orders, clicks = ends_of(shop)
    lose_tail(shop, [orders - 4 * 28, clicks])
    shop.send("clicks", "orders", count=2)  # orders' in the other store
    lose_tail(shop, [orders - 4 * 28, clicks + 28])
    first = shop.sent["clicks"]
    with each_commit(dies_after("orders")), pytest.raises(KeyboardInterrupt):
        shop.run(source_options={**shop.settings.source_options, "failOnDataLoss": "false"})
    for _ in range(8):
        shop.send("clicks", "orders", count=2)
    shop.run()
    assert [one for one in shop.numbers("clicks") if one >= first] == [*range(first, first + 16)]
    assert shop.numbers("orders") == [*range(30)]


def test_a_lost_tail_after_a_round_that_nobody_counted(shop: Shop) -> None:
    shop.send("orders", "clicks")
    shop.run()
    for _ in range(4):
        shop.send("orders", "clicks", count=3)
    dies_before_counts(shop.run)
    lose_tail(shop, [end - 28 for end in ends_of(shop)])
    accepts = {"source_options": {**shop.settings.source_options, "failOnDataLoss": "false"}}
    shop.run(streams=("!orders",), **accepts)
    shop.send("orders", "clicks", count=4)
    shop.run(streams=("!orders",), **accepts)
    shop.run()
    assert shop.numbers("orders") == [*range(26)]


@pytest.mark.parametrize("rows_before", [0, 1, 4])
def test_recreated_topic_and_a_cut_counts_table(shop: Shop, rows_before: int) -> None:
    """A reset reads all of a recreated topic although the counts table lost its history."""
    for _ in range(2):
        shop.send("orders", "clicks")
        shop.run()
    cut_history(shop.lake / "_counts")
    shop.tube.delete_topic("shop")
    shop.tube.create_topic(TopicConfig("shop", 2, 1))
    for number in range(4):
        if number == rows_before:
            shop.job().reset_offsets(["shop"])
        shop.send("orders", "clicks")
    if rows_before == 4:
        shop.job().reset_offsets(["shop"])
    shop.run()
    assert shop.numbers("orders") == shop.numbers("clicks") == [*range(60)]


def test_rows_of_the_rest_moved_by_the_user(shop: Shop, tmp_path: Path) -> None:
    """As docs/inlong-groups.md has it."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views")
    shop.run(**typed)
    defined(tmp_path, "views")
    shop.send("orders")
    shop.run(**typed)
    rest, views = (f"delta.`{shop.lake}/{name}`" for name in ("_rest", "views"))
    own = f"FROM {rest} WHERE inlongStreamId = 'views'"
    shop.spark.sql(f"INSERT INTO {views} (id) SELECT from_json(CAST(value AS STRING), 'id BIGINT').id {own}").collect()
    shop.spark.sql(f"DELETE {own}").collect()
    shop.send("orders", "views")
    assert shop.run(**typed).rows == 20
    assert everywhere(shop, "views") == shop.ids("views") == [*range(20)]


def test_bad_record_in_the_first_round(shop: Shop, tmp_path: Path) -> None:
    """No record is lost if a bad record stops the first round of a stream's own table."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views")
    shop.run(**typed)
    defined(tmp_path, "views")
    shop.send("views", bad=1)
    shop.send("orders")
    with pytest.raises(StreamsLeftBehind, match="views"):
        shop.run(**typed)
    typed["bad_records"] = f"{shop.lake}/_bad"
    shop.run(**typed)
    bad = shop.job(**typed).bad_records().where("inlongStreamId = 'views'").count()
    assert (len(everywhere(shop, "views")), bad) == (19, 1)


def test_left_behind_and_then_undefined(shop: Shop, tmp_path: Path) -> None:
    """A stream left behind before its first round stays behind if it loses its definition."""
    typed = defined(tmp_path, "orders")
    defined(tmp_path, "views", ddl="id BIGNT")
    shop.send("orders", "views")
    with pytest.raises(StreamsLeftBehind, match="views"):
        shop.run(**typed)
    (tmp_path / "views.ddl").unlink()
    shop.send("orders", "views")
    with pytest.raises(StreamsLeftBehind, match=r"views.ddl, which cannot be read"):
        shop.run(**typed)
    defined(tmp_path, "views")
    shop.run(**typed)
    assert everywhere(shop, "views") == [*range(20)]


def test_defined_by_manager_during_a_run(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of the rest has each record once if Manager defines it during a run."""
    monkeypatch.setattr(definitions, "_ASK_AGAIN_SECONDS", 0.0)
    known = {"orders": stream("orders", ID, dataType="JSON")}
    shop.send("orders", "views")
    with managing(known, OF_SHOP) as manager:
        job = shop.job(**of(manager.address, trigger="0s"))
        rounds = []

        def see(event: Any) -> None:
            if hasattr(event, "total_rows"):
                rounds.append(event)
                if len(rounds) == 1:
                    known["views"] = stream("views", ID, dataType="JSON")
                    shop.send("orders", "views")
                elif len(rounds) < 4:
                    shop.send("orders", "views")
                else:
                    job._stop.set()

        with suppress(TubeError):
            job.run(see)
        shop.run(**of(manager.address))
    assert everywhere(shop, "views") == [*range(shop.sent["views"])]


def test_undefined_stream_while_others_run(shop: Shop, tmp_path: Path) -> None:
    """An undefined stream has each record once if some runs choose only other streams."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views")
    shop.run(**typed)
    shop.send("orders", "views")
    shop.run(streams=("orders",), **typed)
    shop.send("orders", "views")
    shop.run(**typed)
    assert everywhere(shop, "views") == [*range(30)]


def test_a_stream_that_begins_while_others_are_chosen(shop: Shop) -> None:
    shop.send("orders", "views")
    shop.run()
    shop.send("orders", "views", "clicks")
    shop.run(streams=("orders",))
    shop.run()
    assert shop.numbers("views") == [*range(20)]
    assert DeltaTable.is_deltatable(f"{shop.lake}/clicks")
    assert shop.numbers("clicks") == [*range(10)]


@pytest.mark.parametrize("how", ["restore", "remove"])
def test_rest_restored_after_a_definition(shop: Shop, tmp_path: Path, how: str) -> None:
    """Each record is there once if the rest is restored or removed after a stream is defined."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", "views", "clicks")
    shop.run(**typed)
    shop.send("orders", "views", "clicks")
    shop.run(**typed)
    defined(tmp_path, "views")
    shop.send("orders", "views", "clicks")
    shop.run(**typed)
    if how == "restore":
        shop.spark.sql(f"RESTORE TABLE delta.`{shop.lake}/_rest` TO VERSION AS OF 1").collect()
    else:
        shutil.rmtree(shop.lake / "_rest")
    shop.send("orders", "views", "clicks")
    shop.run(**typed)
    assert everywhere(shop, "clicks") == [*range(40)]
    assert everywhere(shop, "views") == [*range(40)]


@pytest.mark.parametrize("goes_on", [False, True])
def test_removed_table_of_a_former_rest_stream(shop: Shop, tmp_path: Path, goes_on: bool) -> None:
    """Each record is there once if somebody removes the table of a stream that was in the rest."""
    typed = defined(tmp_path, "orders")
    others = ("orders", "views", *["clicks"] * goes_on)  # clicks goes on in the rest
    shop.send(*others)
    shop.run(**typed)
    defined(tmp_path, "views")
    shop.send(*others)
    shop.run(**typed)
    shutil.rmtree(shop.lake / "views")
    shop.send(*others)
    shop.run(**typed)
    assert everywhere(shop, "views") == [*range(30)]


def test_killed_refill_of_a_removed_table(shop: Shop) -> None:
    """A removed table has each record once if the run that refills it dies."""
    shop.send("orders", "views")
    shop.send("orders", "views")
    shop.run()
    shutil.rmtree(shop.lake / "views")

    class Killed(BaseException):
        pass

    def fail(table: Any, _: object, commit: Callable[[], None]) -> None:
        commit()
        if table.where.endswith("views`"):
            raise Killed

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tubeclient_ingest.rounds.stream_tables._AT_ONCE", 1)
        with each_commit(fail), pytest.raises(Killed):
            shop.run(max_offsets_per_trigger=2)
    shop.run(max_offsets_per_trigger=2)
    assert shop.numbers("views") == [*range(20)]


def test_topic_left_out_for_a_run(shop: Shop) -> None:
    """A stream has each record once if a run leaves out one of its topics."""
    shop.send("orders", "views")
    pack = encode_pack([RecordGroup({"groupId": "shop", "streamId": "orders", "dt": "0"}, [b'{"id": 100}'])], made_ms=0)
    shop.tube.load("more", [NewMessage(0, pack)])
    shop.run(topics=("shop", "more"))
    shop.send("orders", "views")
    shop.run(topics=("shop",))
    shop.send("orders", "views")
    shop.run(topics=("shop", "more"))
    assert shop.numbers("orders") == [*range(30), 100]


@pytest.mark.merge("True]")
@pytest.mark.parametrize("is_new", [False, True])
def test_paused_run_unaware_of_a_definition(shop: Shop, tmp_path: Path, is_new: bool) -> None:
    """A paused run that does not know of a stream's new definition doubles no record."""
    typed = defined(tmp_path, "orders")
    shop.send("orders", *["views"] * (not is_new))
    shop.run(**typed)
    shop.send("views")
    of_rest = [0]

    def stands_still(table: Any, _: object, commit: Callable[[], None]) -> None:
        of_rest[0] += table.where.endswith("_rest`")
        if table.where.endswith("_rest`") and of_rest[0] == 2:  # the first says that the run begins
            shop.tube.restart_master()  # which knows nothing of the group's consumers, as after their lease
            defined(tmp_path, "views")
            shop.run(**typed)
        commit()

    with each_commit(stands_still):
        with suppress(TubeError):
            shop.run(**typed)
        shop.run(**typed)
    assert of_rest[0] > 2
    assert everywhere(shop, "views") == [*range(shop.sent["views"])]


def test_expired_data_of_a_lagging_stream(shop: Shop, tmp_path: Path) -> None:
    """Expired data of a stream that stays behind stops no other stream."""
    typed = {"format": "json", "schema": "id BIGINT"}
    shop.send("orders", "views")
    shop.run(**typed)
    views = f"delta.`{shop.lake}/views`"
    shop.spark.sql(f"ALTER TABLE {views} ADD CONSTRAINT few CHECK (id < 10)").collect()
    shop.send("orders", "views")
    with pytest.raises(StreamsLeftBehind, match="views"):
        shop.run(**typed)
    shop.tube.expire("shop", 56, store_id=1)
    shop.send("orders")
    with pytest.raises(StreamsLeftBehind, match=r"^1 stream .* views: \[DATA_LOSS\] .* have expired"):
        shop.run(**typed)
    assert shop.ids("orders") == [*range(30)]
    shop.spark.sql(f"ALTER TABLE {views} DROP CONSTRAINT few").collect()
    shop.send("views")
    shop.run(**typed, source_options={**shop.settings.source_options, "failOnDataLoss": "false"})
    assert (shop.ids("orders"), shop.ids("views")) == ([*range(30)], [*range(10), *range(20, 30)])


def test_left_out_stream_after_a_lost_tail(shop: Shop) -> None:
    """A stream that runs left out gets all messages that follow a lost tail."""
    accepts = {"source_options": {**shop.settings.source_options, "failOnDataLoss": "false"}}
    for _ in range(10):
        shop.send("orders", "views", count=1)
    shop.run(**accepts)
    shop.tube.delete_topic("shop")
    shop.tube.create_topic(TopicConfig("shop", 2, 1))
    shop.send("orders", "views", count=1)  # behind where the rows end: lost, as accepted
    shop.run(streams=("orders",), **accepts)
    for _ in range(20):
        shop.send("orders", "views", count=1)
    shop.run(streams=("orders",), **accepts)
    shop.run(**accepts)
    assert set(range(11, 31)) <= set(shop.numbers("orders"))
    assert set(range(11, 31)) <= set(shop.numbers("views"))


def test_reset_topic_beside_a_lagging_stream(shop: Shop) -> None:
    """A reset of one topic loses no record of a stream that lags in the other topic."""
    typed = {"format": "json", "schema": "id BIGINT", "topics": ("shop", "more")}
    shop.send("orders", "views")
    shop.run(**typed)
    of_views = f"delta.`{shop.lake}/views`"
    shop.spark.sql(f"ALTER TABLE {of_views} ADD CONSTRAINT few CHECK (id < 10)").collect()
    pack = encode_pack([RecordGroup({"groupId": "shop", "streamId": "views", "dt": "0"}, [b'{"id": 100}'])], made_ms=0)
    shop.tube.load("more", [NewMessage(0, pack)])
    with pytest.raises(StreamsLeftBehind):
        shop.run(**typed)
    shop.spark.sql(f"ALTER TABLE {of_views} DROP CONSTRAINT few").collect()
    shop.tube.delete_topic("shop")
    shop.tube.create_topic(TopicConfig("shop", 2, 1))
    shop.job(**typed).reset_offsets(["shop"])
    shop.run(**typed)
    assert shop.ids("views") == [*range(10), 100]
