"""Definitions of protobuf and Avro records: what is wrong with them is said before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from spark_source.typed.binary import avro_records, package_of, protobuf_records
from spark_source.typed.format_settings import FormatSettings
from tests.spark_source.typed.definitions import OLD, USER, avsc, descriptor, messages
from tubeclient.errors import ConfigurationError


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> str:
    return descriptor(tmp_path_factory.mktemp("proto"))


def test_spark_gets_a_copy_of_the_message_with_one_field_more(clicks: str) -> None:
    found = protobuf_records(clicks, "shop.Click")
    assert (found.name, found.message) == ("shop.Click", "shop.TubeclientRecord")
    [file] = [one for one in FileDescriptorSet.FromString(found.definition).file if one.name == "clicks.proto"]
    whole, copy = file.message_type[0], file.message_type[-1]
    assert list(copy.field)[:-1] == list(whole.field)
    assert (copy.field[-1].name, copy.field[-1].number) == ("tubeclient_read", 2**29 - 1)
    assert "tubeclient_read" not in str(whole)


def test_a_number_that_the_message_has_is_not_taken(tmp_path: Path) -> None:
    text = f'syntax = "proto3"; message M {{ message In {{ int32 i = 1; }} In last = {2**29 - 1}; }}'
    path = descriptor(tmp_path, text, "m")
    found = protobuf_records(path, "M")
    assert found.message == "TubeclientRecord"
    path_of_changed = tmp_path / "changed"
    path_of_changed.write_bytes(found.definition)
    classes = messages(str(path_of_changed))
    read = classes["TubeclientRecord"].FromString(classes["M"](last={"i": 5}).SerializeToString())
    assert (read.last.i, list(read.tubeclient_read)) == (5, [])
    assert protobuf_records(path, "M.In").message == "TubeclientRecord"


def test_proto2_has_its_texts_checked(tmp_path: Path) -> None:
    found = FileDescriptorSet.FromString(protobuf_records(descriptor(tmp_path, OLD, "old"), "Old").definition)
    assert found.file[0].options.java_string_check_utf8


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("Click", "has no message Click; did you mean shop.Click"),
        ("shop.Clik", "did you mean shop.Click"),
        ("Nowhere", "it has google.protobuf.Duration, .*, shop.Took$"),
        ("shop.Click.PricesEntry2", "has no message"),
    ],
)
def test_a_message_that_is_not_there(clicks: str, message: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        protobuf_records(clicks, message)
    assert "\n" not in str(caught.value)


def test_a_bad_descriptor(tmp_path: Path, clicks: str) -> None:
    bad = tmp_path / "bad"
    whole = Path(clicks).read_bytes()
    for data in (b"", b'syntax = "proto3";\nmessage M {}', b"\xff" * 9, whole[:-3]):
        bad.write_bytes(data)
        with pytest.raises(ConfigurationError, match=r"is no complete descriptor set; make it with") as caught:
            protobuf_records(str(bad), "shop.Click")
        assert "\n" not in str(caught.value)
    alone = descriptor(tmp_path, name="alone", include_imports=False)
    with pytest.raises(ConfigurationError, match=r"--include_imports.*google/protobuf/"):
        protobuf_records(alone, "shop.Click")
    with pytest.raises(ConfigurationError, match="descriptor names the file /nowhere, which cannot be read: No such"):
        protobuf_records("/nowhere", "M")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ("{", "as it is not JSON"),
        ("[" * 100_000, "as it is not JSON"),
        ("\ufffd", "as it is not JSON"),
        ('"string"', "no Avro schema of a record"),
        ([USER], "no Avro schema of a record"),
        ({"type": "record", "fields": []}, "no Avro schema of a record"),
    ],
)
def test_a_bad_avro_schema(tmp_path: Path, schema: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        avro_records(avsc(tmp_path, schema))
    assert "\n" not in str(caught.value)


def test_an_avro_record_is_followed_by_a_mark(tmp_path: Path) -> None:
    found = avro_records(avsc(tmp_path))
    assert found.name == "User"
    [record, end] = json.loads(found.definition)["fields"]
    assert record["type"] == USER
    assert end["type"]["size"] == 16


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"format": "protobuf", "descriptor": "f"}, "format protobuf needs descriptor, .* and message"),
        ({"format": "protobuf", "message": "M"}, "format protobuf needs descriptor, .* and message"),
        ({"format": "protobuf", "schema": "id INT"}, "schema is given, which format protobuf does not have"),
        ({"format": "protobuf", "schema_from_inlong": "f"}, "schema-from-inlong is given, which format protobuf"),
        ({"format": "avro", "schema": "id INT"}, "needs schema, the path of an Avro schema that ends in .avsc"),
        ({"format": "avro", "schema": "f.avsc", "encoding": "GBK"}, "encoding is given, which format avro"),
        ({"format": "avro", "schema": "f.avsc", "message": "M"}, "message is given, which format avro"),
        ({"format": "avro", "schema": "/nowhere.avsc"}, "schema names the file /nowhere.avsc, which cannot be read"),
        ({"format": "json", "schema": "id INT", "message": "M"}, "message are for format protobuf"),
        ({"descriptor": "f"}, "message are for format protobuf"),
        (
            {"format": "protobuf", "format_options": {"mode": "FAILFAST"}},
            r"mode is no format option of protobuf; there are emit\.default\.values",
        ),
    ],
)
def test_settings_that_do_not_fit(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        FormatSettings(**given)


def test_the_package_is_of_sparks_version() -> None:
    assert package_of("avro", "4.2.0") == "org.apache.spark:spark-avro_2.13:4.2.0"
    assert package_of("json", "4.2.0") is package_of(None, "4.2.0") is None
