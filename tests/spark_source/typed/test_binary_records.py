"""Records of protobuf and Avro become columns, or are bad, by Spark's own readers."""

from __future__ import annotations

import random
from datetime import datetime
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyspark_tubeclient import typed
from spark_source.typed.binary import BinaryRecords, protobuf_records
from spark_source.typed.format_settings import FormatSettings
from spark_source.typed.record_format import RecordFormat
from tests.spark_formats import has_protobuf, needs_protobuf
from tests.spark_source.typed.definitions import OLD, USER, avsc, descriptor, messages, user, zigzag
from tests.spark_source.typed.rows import GOOD, parsed, source_rows
from tubeclient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NO_CLICK = "the bytes are not one protobuf record of shop.Click"
NO_USER = "the bytes are not one avro record of User"


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> str:
    return descriptor(tmp_path_factory.mktemp("proto"))


@pytest.fixture(scope="module")
def click(clicks: str) -> Any:
    return messages(clicks)["shop.Click"]


def form_of(clicks: str, message: str = "shop.Click", **options: str) -> RecordFormat:
    how = {name.replace("_", "."): value for name, value in options.items()}
    return FormatSettings(format="protobuf", descriptor=clicks, message=message, format_options=how).record_format()


@needs_protobuf
def test_protobuf(delta_spark: SparkSession, clicks: str, click: Any) -> None:
    form = form_of(clicks)
    assert form.columns.simpleString() == (
        "struct<id:bigint,name:string,at:timestamp,kind:string,items:array<struct<sku:string,counts:array<int>,"
        "made:timestamp>>,prices:map<string,double>,user:string,visitor:bigint,seen:boolean,raw:binary,"
        "first:struct<sku:string,counts:array<int>,made:timestamp>>"
    )
    whole = click(
        id=7, name="x", at={"seconds": 1_700_000_000, "nanos": 5_000}, kind=1, prices={"eur": 1.5}, visitor=9,
        items=[{"sku": "a", "counts": [1, 2]}, {}], seen=False, raw=b"\xff\0", first={"sku": "b"},
    )  # fmt: skip
    unknown = messages(clicks)["shop.NewClick"](id=7, name="x", unheard_of="y")
    data = whole.SerializeToString()
    none: tuple[Any, ...] = (None, None, None, None, [], {}, None, None, None, None, None)
    expected: dict[bytes, Any] = {
        data: (
            *(7, "x", "2023-11-14 22:13:20.000005", "BUY"),
            *([{"sku": "a", "counts": [1, 2], "made": None}, {"sku": None, "counts": [], "made": None}], {"eur": 1.5}),
            *(None, 9, False, b"\xff\0", {"sku": "b", "counts": [], "made": None}),
        ),
        b"": none,
        unknown.SerializeToString(): (7, "x", *none[2:]),
        click(user="").SerializeToString(): (*none[:6], "", *none[7:]),
        click(kind=5).SerializeToString(): (*none[:3], "UNKNOWN_ENUM_VALUE_Kind_5", *none[4:]),
        data[:-1]: NO_CLICK,
        b"\x08": NO_CLICK,
        b"\x12\x02\xff\xfe": NO_CLICK,  # name, which is no text
        b"\x10\x05": NO_CLICK,  # name, as a number
        b"\x0c": NO_CLICK,  # the end of a group
        b"\x5b" * 200 + b"\x5c" * 200: NO_CLICK,  # groups in groups
        click(at={"seconds": 253_402_300_800}).SerializeToString(): "at is not of the years 1 to 9999",
        click(first={"made": {"seconds": -62_135_596_801}}).SerializeToString(): (
            "first.made is not of the years 1 to 9999"
        ),
    }
    assert parsed(delta_spark, form, expected) == GOOD
    rows = form.parse(source_rows(delta_spark, [None, data], bad={1: "torn"})).select("badReason", "unread").collect()
    assert [tuple(row) for row in rows] == [("the record is null", False), ("torn", True)]


@needs_protobuf
def test_proto2(delta_spark: SparkSession, tmp_path: Path) -> None:
    form = form_of(descriptor(tmp_path, OLD, "old"), "Old")
    wrong = "the bytes are not one protobuf record of Old"
    assert parsed(delta_spark, form, {
        b"\x08\x05\x12\x01x": (5, "x"),
        b"\x12\x01x": wrong,  # without the id, which is required
        b"\x08\x05\x12\x02\xff\xfe": wrong,
        b"": wrong,
    }) == GOOD  # fmt: skip


@needs_protobuf
def test_options_and_messages_without_columns(delta_spark: SparkSession, clicks: str) -> None:
    assert form_of(clicks, enums_as_ints="true").columns["kind"].dataType.simpleString() == "int"
    node = form_of(clicks, "shop.Node", recursive_fields_max_depth="2").columns.simpleString()
    assert "tubeclient" not in node
    assert node.startswith("struct<name:string,next:struct<name:string")
    for message, said in (
        ("shop.Empty", "shop.Empty has no fields"),
        ("shop.Took", "column took is interval day to second, a type that Delta has not"),
        ("shop.Node", "Spark cannot use shop.Node for protobuf: .*recurs"),
    ):
        with pytest.raises(ConfigurationError, match=said) as caught:
            form_of(clicks, message)
        assert "\n" not in str(caught.value)


def test_java_reads_the_definition_that_spark_gets(delta_spark: SparkSession, clicks: str, click: Any) -> None:
    """By the reader of protobuf that Spark has within it: the list that is added is there in good messages, and what is
    no text of proto2 or cut off is refused."""
    records = protobuf_records(clicks, "shop.Click")
    whole = click(id=7, name="x", kind=1, prices={"eur": 1.5}, items=[{"sku": "a"}], seen=False, at={"seconds": 5})
    data = whole.SerializeToString()
    java = JavaReader(delta_spark, records)
    assert java.read(data) == java.read(b"") == "[]"
    for bad in (data[:-1], b"\x08", b"\x12\x02\xff\xfe", b"\x0c"):
        assert "InvalidProtocolBuffer" in java.read(bad)
    old = JavaReader(delta_spark, protobuf_records(descriptor(Path(clicks).parent, OLD, "old"), "Old"))
    assert old.read(b"\x08\x05\x12\x01x") == "[]"
    assert "required" in old.read(b"\x12\x01x")
    assert "invalid UTF-8" in old.read(b"\x08\x05\x12\x02\xff\xfe")


class JavaReader:
    """protobuf-java, as it lies in a jar of Spark's, reads messages of a definition."""

    def __init__(self, spark: SparkSession, records: BinaryRecords) -> None:
        jvm: Any = spark._jvm
        self._java = java = jvm.org.sparkproject.connect.protobuf
        files = java.DescriptorProtos.FileDescriptorSet.parseFrom(bytearray(records.definition))
        made: dict[str, Any] = {}
        for file in files.getFileList():
            needed = [made[name] for name in file.getDependencyList()]
            array = spark.sparkContext._gateway.new_array(java.Descriptors.FileDescriptor, len(needed))  # type: ignore[union-attr]
            for place, one in enumerate(needed):
                array[place] = one
            made[file.getName()] = java.Descriptors.FileDescriptor.buildFrom(file, array)
        found = (file.findMessageTypeByName(records.message.rpartition(".")[2]) for file in made.values())
        self._message = next(one for one in found if one is not None)

    def read(self, data: bytes) -> str:
        """The field that was added, or what is wrong with the message."""
        from py4j.protocol import Py4JJavaError

        try:
            read = self._java.DynamicMessage.parseFrom(self._message, bytearray(data))
        except Py4JJavaError as error:
            return str(error.java_exception)
        return str(read.getField(self._message.findFieldByName("tubeclient_read")))


def test_a_spark_without_the_package_says_what_to_give(
    delta_spark: SparkSession, clicks: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if has_protobuf():
        pytest.skip("this Spark has spark-protobuf")
    with pytest.raises(ConfigurationError, match=r"spark\.jars\.packages=.*:spark-protobuf_2\.13:\d") as caught:
        typed(source_rows(delta_spark, []), "protobuf", descriptor=clicks, message="shop.Click")
    assert caught.value.condition == "JARS_NOT_FOUND"
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


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
        b"": NO_USER,
        user(at=253_402_300_800_000): "at is not of the years 1 to 9999",
        user(at=2**62): NO_USER,
        b"Obj\x01" + user(): NO_USER,  # a container
    }) == GOOD  # fmt: skip


def test_lengths_that_no_memory_has_end_no_executor(delta_spark: SparkSession, tmp_path: Path) -> None:
    form = FormatSettings(format="avro", schema=avsc(tmp_path)).record_format()
    lengths = (30_000_000, 500_000_000, 2**31 - 10, 2**40, -1)
    texts = [zigzag(1) + b"\x02" + zigzag(length) + b"x" for length in lengths]
    lists = [user()[:-2] + zigzag(length) for length in lengths]
    assert parsed(delta_spark, form, dict.fromkeys([*texts, *lists], NO_USER)) == GOOD


def test_schemas_that_only_avro_can_judge(delta_spark: SparkSession, tmp_path: Path) -> None:
    for schema, said in (
        ({**USER, "fields": [{"name": "a", "type": "strin"}]}, "Spark cannot use User for avro: .*strin"),
        ({**USER, "fields": []}, "User has no fields"),
        ({**USER, "fields": [{"name": "a", "type": "null"}]}, "column a is void, a type that Delta has not"),
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


@needs_protobuf
@given(st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_record_is_good_or_bad(delta_spark: SparkSession, clicks: str, click: Any, rng: random.Random) -> None:
    """And good are those that Google's own reader takes."""
    items = [{"sku": "a" * rng.randrange(9), "counts": [rng.randrange(9)]} for _ in range(rng.randrange(3))]
    values = [
        damaged(rng, click(id=rng.randrange(2**40), name="\u4e2d", items=items, prices={"a": 1}).SerializeToString())
        for _ in range(200)
    ]
    rows = typed(source_rows(delta_spark, values), "protobuf", descriptor=clicks, message="shop.Click").collect()
    found = {row.tubemq.messageId - 100: row.badReason for row in rows}
    assert sorted(found) == list(range(len(values)))
    for number, value in enumerate(values):
        try:
            click.FromString(value)
        except DecodeError:
            assert found[number] is not None, value
        else:
            assert found[number] in (None, NO_CLICK, "at is not of the years 1 to 9999"), value


def test_each_avro_record_is_good_or_bad(delta_spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(3)
    values = [damaged(rng, user(rng.randrange(2**40), "x" * rng.randrange(9), 5, 1, 7)) for _ in range(2_000)]
    rows = typed(source_rows(delta_spark, values), "avro", avsc(tmp_path)).collect()
    assert sorted(row.tubemq.messageId - 100 for row in rows) == list(range(len(values)))
    assert all((row.id is None) == (row.badReason is not None) for row in rows)
    whole = [row for row in rows if row.badReason is None]
    assert 400 < len(whole) < 1_000
