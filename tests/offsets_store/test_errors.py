"""Messages that say what, where and what to do, and no secrets."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from offsets_store import (
    GroupKey,
    OffsetsTable,
    OffsetsTableError,
    PartitionProgress,
    SchemaMismatch,
)
from offsets_store.errors import scrub
from offsets_store.schema import COLUMNS, check_schema
from tubeclient.keys import PartitionKey
from tubeclient.printable import display_uri

KEY = GroupKey("g", ["a"])


def test_scrub_masks_secret_options() -> None:
    """`scrub` masks the values of secret options but not harmless words."""
    options = {"AWS_SECRET_ACCESS_KEY": "a/b+c=d", "region": "eu", "allow_http": "true", "sas_token": "xyz"}
    text = scrub("it is true that a/b+c=d and a%2Fb%2Bc%3Dd and xyz failed in eu", options)
    assert text == "it is true that *** and *** and *** failed in eu"


def test_scrub_of_endpoints() -> None:
    """`scrub` shows an endpoint without the secrets in it."""
    said = "Error performing GET http://u:pw@store:9/lake"
    assert scrub("GET http://store:9/lake", {"AWS_ENDPOINT_URL": "http://store:9"}) == "GET http://store:9/lake"
    assert "pw" not in scrub(said, {"aws_endpoint": "http://u:pw@store:9"})
    assert "pw" not in scrub("GET http://store:9?key=pw", {"endpoint": "http://store:9?key=pw"})


def test_scrub_makes_one_plain_line() -> None:
    raw = "Generic S3 error\n   \x1b[31m↳\x1b[0m refused\n   0: <unknown>\n   1: clone3\n at ./x.S:81:0"
    assert scrub(raw, {}) == "Generic S3 error refused"


def test_uris_are_shown_without_their_secrets() -> None:
    assert display_uri("s3://user:pw@host/path?sig=1#f") == "s3://host/path"
    assert display_uri("/some/where") == "/some/where"
    assert display_uri("s3a://KEY:the/se/cret+=@lake/t") == "s3a://lake/t"  # Hadoop takes such ones
    assert display_uri("s3a://KEY:80/cret@lake/t") == "s3a://lake/t"  # a bucket has no port
    assert display_uri("s3a://KEY:s e@cr?et@lake/t") == "s3a://***"  # it could be another bucket's query
    assert display_uri("wasbs://u:p@w@host/t?sig=a") == "wasbs://host/t"
    assert display_uri("https://host/t?sig=a:b@c") == "https://***"
    assert display_uri("https://token@host/t") == "https://host/t"
    assert display_uri("hdfs://nn:8020/who@where/t") == "hdfs://nn:8020/who@where/t"
    assert display_uri("abfss://box@host/t") == "abfss://box@host/t"  # a container is no user
    assert display_uri("delta.`abfss://box@host/t`") == "delta.`abfss://box@host/t`"
    assert display_uri("delta.`s3a://KEY:80/cret@lake/t`") == "delta.`s3a://lake/t`"
    assert scrub("no 's3a://KEY:80/c@t@lake/t?sig=1', nor b", {}) == "no 's3a://lake/t', nor b"
    assert scrub("no s3a://KEY:the/se/cret@lake/t there", {}) == "no s3a://lake/t there"
    assert scrub("cannot reach s3://u:pw@h/p?sig=1", {}, "s3://u:pw@h/p?sig=1") == "cannot reach s3://h/p"


def test_non_table_error_hides_password(tmp_path: Path) -> None:
    """The error for a place that is not a table shows its path without user and password."""
    (tmp_path / "file").write_text("x")
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(SchemaMismatch) as caught:
            OffsetsTable(f"file://the-user:the-password@{place}", {}).groups()
        assert str(place) in str(caught.value)
        assert "the-" not in str(caught.value)


def test_unreachable_store_error() -> None:
    """The error for an unreachable store names the table but shows no option value."""
    options = {
        "AWS_ACCESS_KEY_ID": "the-access-id",
        "AWS_SECRET_ACCESS_KEY": "the-secret-key",
        "AWS_ENDPOINT_URL": "http://the-user:the-password@127.0.0.1:9",  # nothing listens on port 9
        "AWS_REGION": "the-region",
        "AWS_ALLOW_HTTP": "true",
        "max_retries": "0",
    }
    table = OffsetsTable("s3://bucket/offsets", options)
    with pytest.raises(OffsetsTableError) as caught:
        table.latest(KEY)
    text = "".join(traceback.format_exception(caught.value)) + repr(table)
    assert "could not read the offsets table at s3://bucket/offsets" in str(caught.value)
    assert "Check the path" in str(caught.value)
    assert [value for value in options.values() if len(value) > 5 and value in text] == []
    assert "the-password" not in text


def test_a_folder_with_other_files_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(OffsetsTableError, match="is neither a Delta table nor empty"):
        OffsetsTable(str(tmp_path)).open_run(KEY, 1)


def test_table_creation_in_progress(tmp_path: Path) -> None:
    """A folder in which another process is creating the table counts as free."""
    # What is there while another process makes the table.
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "_commit_1.json.tmp").write_text("")
    table = OffsetsTable(str(tmp_path))
    assert table.latest(KEY) is None
    assert table.open_run(KEY, 1).record([PartitionProgress(PartitionKey(1, "a", 0), 28)]) is True


def test_another_delta_table_is_refused_and_left_alone(tmp_path: Path) -> None:
    import pyarrow as pa
    from deltalake import DeltaTable, write_deltalake

    for columns in ([], ["consumerGroup"]):
        uri = str(tmp_path / f"by-{len(columns)}")
        write_deltalake(uri, pa.table({"consumerGroup": ["g"], "price": [1]}), partition_by=columns)
        with pytest.raises(SchemaMismatch) as told:
            OffsetsTable(uri).open_run(KEY, 1)
        advice, _, differences = str(told.value).partition(" The table ")
        assert advice.endswith(
            "release. Give the offsets table its own folder, or upgrade if a newer release made this one."
        )
        lacks, has, *partitioned = differences.split("; it ")
        assert lacks.startswith("lacks topicSet, ")
        assert lacks.endswith(" more columns")
        assert lacks.count(",") == 2
        assert has == "also has price"
        assert partitioned == ([] if columns else ["is partitioned by nothing"])
        assert DeltaTable(uri).version() == 0


def test_a_column_of_another_type_is_told_alone() -> None:
    types = {column.name: column.type for column in COLUMNS}
    check_schema(types, ["consumerGroup"], "/o")
    with pytest.raises(SchemaMismatch, match=r"made this one\. The table has nextOffset as string, not long$"):
        check_schema({**types, "nextOffset": "string"}, ["consumerGroup"], "/o")
