"""Anybody who may send chooses a stream's id: which ids may name a table, and never that of another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient_ingest.rounds.definitions import Definitions
from tubeclient_ingest.settings.group_settings import target_of
from tubeclient_ingest.settings.ingest_settings import IngestSettings
from tubeclient_ingest.settings.load_settings import load_settings
from tubeclient_ingest.settings.table_by import COUNTS, REST, StreamId

NO_IDS = ["", "orders\n", "orders\r", "orders\u0085", "\norders", "a/b", "a b", "a'b", "é", "٣", "o\u0000", "a" * 201]
HIDDEN = ["_delta_log", "_COUNTS", "_", ".", "..", ".orders"]
"""Spark passes over folders with such names; and some are of Delta's or of the job's own."""


def group(**more: Any) -> IngestSettings:
    given = {"master_servers": "m:1", "consumer_group": "g", "inlong_group": "shop", "target": "/lake/{stream}"}
    return load_settings(None, {**given, **more})


@pytest.mark.parametrize("text", [*NO_IDS, *HIDDEN])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot name a table"):
        StreamId(text)
    with pytest.raises(ConfigurationError, match="cannot name a table"):
        group(streams=(text,))


@given(text=st.text() | st.text(st.sampled_from("aZ09_.-\n/")))
def test_an_id_is_one_folder_that_spark_sees(text: str) -> None:
    try:
        name = StreamId(text)
    except ConfigurationError:
        return
    assert name == text
    assert Path("/lake", name).parts == ("/", "lake", text)
    assert not text.startswith(("_", "."))
    assert text.isascii()
    assert text.isprintable()


@pytest.mark.parametrize("own", [COUNTS, REST])
def test_ids_of_the_jobs_own_tables(own: StreamId) -> None:
    """The job's own tables have ids that no stream can have."""
    assert target_of(group(), own) == f"/lake/{own}"
    with pytest.raises(ConfigurationError, match=r"streams names _.*, which is not a stream"):
        group(streams=(own,))


def test_quotes_around_odd_identifiers() -> None:
    """Backticks enclose a stream's id and the text around it if it is no plain identifier."""
    for target in ("cat.db.s_{stream}_t", "cat.db.`s_{stream}_t`", "`cat`.`db`.`s_{stream}_t`"):
        assert target_of(group(target=target), StreamId("order-1")).endswith(".`s_order-1_t`")
    assert target_of(group(target="cat.db.s_{stream}"), StreamId("orders")) == "cat.db.s_orders"


def is_defined(name: str, **settings: Any) -> bool:
    return Definitions(group(**settings)).defines(StreamId(name))


def test_id_whose_place_is_taken() -> None:
    """A stream has no definition if its place belongs to another table of the job."""
    keyed = {"format": "csv", "schema": "id INT, at INT", "key": ("id",), "order_by": "at"}
    assert is_defined("orders_deletes")
    assert is_defined("orders", **keyed)
    assert not is_defined("orders_deletes", **keyed)
    assert not is_defined("Orders_Deletes", **keyed, target="main.{stream}")
    assert is_defined("bad")
    assert not is_defined("bad", bad_records="/lake/bad")
    assert not is_defined("bad", bad_records="/lake/bad/records")
    assert not is_defined("bad", bad_records="main.bad", target="main.{stream}")
    assert not is_defined("offsets", offsets_table="/lake/offsets")
    with pytest.raises(ConfigurationError, match="streams names bad, but /lake/bad would be another table of the job"):
        group(streams=("bad",), bad_records="/lake/bad")


def test_catalogs_do_not_tell_case() -> None:
    catalog = {"target": "main.{stream}"}
    assert is_defined("Orders")
    assert is_defined("orders", **catalog)
    assert is_defined("orders-2", **catalog)
    assert not is_defined("Orders", **catalog)
    assert not is_defined("orders.new", **catalog)
    with pytest.raises(ConfigurationError, match=r"streams names Orders, but main.Orders would be another table"):
        group(streams=("Orders",), **catalog)
