"""Avro records become columns, or are bad, by Spark's own reader."""

from __future__ import annotations

import random
from datetime import datetime
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyspark_tubeclient import typed
from spark_source.typed.format_settings import FormatSettings
from tests.spark_source.typed.avro_records import USER, avsc, user, zigzag
from tests.spark_source.typed.rows import GOOD, parsed, source_rows
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_USER = "the bytes are not one Avro record of the schema"
NO_SCHEMA = "format avro needs as schema an .avsc file, with an Avro schema of a record"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, NO_SCHEMA),
        ({"schema": "id INT"}, f"{NO_SCHEMA}; this is not JSON"),
        ({"schema": "[" * 100_000}, f"{NO_SCHEMA}; this is not JSON"),
        ({"schema": '"string"'}, f"{NO_SCHEMA}$"),
        ({"schema": '{"type": "fixed", "name": "a", "size": 1}'}, f"{NO_SCHEMA}$"),
        ({"schema": "/nowhere.avsc"}, "schema names the file /nowhere.avsc, which cannot be read"),
        ({"encoding": "GBK"}, "encoding is of texts, and the format is avro"),
        ({"separator": "|"}, "separator is for csv and kv, and the format is avro"),
        ({"format_options": {"mode": "FAILFAST"}}, "mode is no format option of avro; there are enableStable"),
    ],
)
def test_settings_that_do_not_fit(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    if given:
        given = {"schema": avsc(tmp_path), **given}
    with pytest.raises(ConfigurationError, match=said) as caught:
        FormatSettings(format="avro", **given)
    assert "\n" not in str(caught.value)


@pytest.mark.spark
def test_avro(delta_spark: SparkSession, tmp_path: Path) -> None:
    form = FormatSettings(format="avro", schema=avsc(tmp_path)).record_format()
    assert (
        form.columns.simpleString()
        == "struct<id:bigint,name:string,at:timestamp,kind:string,counts:array<int>,first:struct<made:timestamp>>"
    )
    good = (1, "x", "2023-11-14 22:13:20", "BUY")
    first, made = user(5), datetime(2023, 11, 14, 22, 13, 20, 1)
    assert parsed(delta_spark, form, {
        user(1, "x", 1_700_000_000_000, 1, 4, -5): (*good, [4, -5], None),
        user(1, None, 0, 0): (1, None, "1970-01-01 00:00:00", "NONE", [], None),
        user(-1, "\u4e2d"): (-1, "\u4e2d", *good[2:], [], None),
        user()[:-1] + b"\x02" + zigzag(1_700_000_000_000_001): (*good, [], {"made": made}),
        user()[:-1] + b"\x02" + zigzag(253_402_300_800_000_000): "first.made is not of the years 1 to 9999",
        user() + b"\0": NO_USER,
        # A record is the whole message, even if its own checksum follows.
        first + first: NO_USER,
        first + md5(first).digest(): NO_USER,
        first + md5(first).digest()[:7]: NO_USER,
        user()[:-1]: NO_USER,
        user(kind=7): NO_USER,
        zigzag(1) + b"\x04": NO_USER,  # a third kind of a union of two
        b"": "the record is empty",
        user(at=253_402_300_800_000): "at is not of the years 1 to 9999",
        user(at=2**62): NO_USER,
        b"Obj\x01" + user(): NO_USER,  # a container
    }) == GOOD  # fmt: skip


@pytest.mark.spark
def test_lengths_that_no_memory_has_end_no_executor(delta_spark: SparkSession, tmp_path: Path) -> None:
    form = FormatSettings(format="avro", schema=avsc(tmp_path)).record_format()
    lengths = (30_000_000, 500_000_000, 2**31 - 10, 2**40, -1)
    texts = [zigzag(1) + b"\x02" + zigzag(length) + b"x" for length in lengths]
    lists = [user()[:-2] + zigzag(length) for length in lengths]
    assert parsed(delta_spark, form, dict.fromkeys([*texts, *lists], NO_USER)) == GOOD


@pytest.mark.spark
def test_schemas_that_only_avro_can_judge(delta_spark: SparkSession, tmp_path: Path) -> None:
    for schema, said in (
        ({**USER, "fields": [{"name": "a", "type": "strin"}]}, "Spark cannot use the Avro schema: .*strin"),
        ({**USER, "fields": []}, "the Avro schema has no fields"),
        ({**USER, "fields": [{"name": "a", "type": "null"}]}, "column a is void, a type that avro does not have"),
    ):
        with pytest.raises(ConfigurationError, match=said) as caught:
            FormatSettings(format="avro", schema=avsc(tmp_path, schema)).record_format()
        assert "\n" not in str(caught.value)


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes, perhaps cut, changed, or others altogether."""
    how = rng.randrange(4)
    if how == 0 or not data:
        return data
    if how == 1:
        return data[: rng.randrange(len(data))]
    if how == 2:
        place = rng.randrange(len(data))
        return data[:place] + bytes([rng.randrange(256)]) + data[place + 1 :]
    return rng.randbytes(rng.randrange(40))


@pytest.mark.spark
def test_each_record_is_good_or_bad(delta_spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    values = [damaged(rng, user(rng.randrange(2**40), "x" * rng.randrange(9), 5, 1, 7)) for _ in range(2_000)]
    rows = typed(source_rows(delta_spark, values), "avro", avsc(tmp_path)).collect()
    assert sorted(row.tubemq.messageId - 100 for row in rows) == list(range(len(values)))
    assert all((row.id is None) == (row.badReason is not None) for row in rows)
    whole = [row for row in rows if row.badReason is None]
    assert 400 < len(whole) < 1_000
