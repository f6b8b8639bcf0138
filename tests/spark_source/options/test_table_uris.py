"""Where tables are, and how long their stores may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_source.options import parsers
from spark_source.options.table_uris import check_folders, is_name, limited, table_in_sql
from tubeclient.errors import ConfigurationError


def test_store_limits_spare_user_options() -> None:
    """Object stores get default limits, and the user's own options do not change."""
    given = {"AWS_REGION": "eu", "TIMEOUT": "90s"}
    found = limited("s3://lake/t", given)
    assert found == {"AWS_REGION": "eu", "TIMEOUT": "90s"} | {
        name: found[name] for name in ("connect_timeout", "max_retries", "retry_timeout")
    }
    for place in ("/lake/t", "file:///lake/t"):
        assert limited(place, given) == given


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/lake/t", "/lake/t/"),
        ("/lake/t", "/lake/t/_c"),
        ("/lake/x/../t", "file:///lake/t/o"),
        ("s3a://lake/t", "s3://lake/t/b"),
    ],
)
def test_of_two_folders_none_may_be_within_the_other(one: str, other: str) -> None:
    for places in ({"a": one, "b": other}, {"a": other, "b": one}):
        with pytest.raises(ConfigurationError, match=r"^a and b are the same folder, or one is inside the other"):
            check_folders(places)
    check_folders({"a": one, "b": f"{one}2", "c": None})


@pytest.mark.parametrize(
    ("place", "in_sql"),
    [
        ("lake.clicks", "lake.clicks"),
        ("main.`a/b`.clicks", "main.`a/b`.clicks"),
        ("`a``/b`.clicks", "`a``/b`.clicks"),
        ("/lake/clicks", "delta.`/lake/clicks`"),
        ("./lake.clicks", "delta.`./lake.clicks`"),
        ("s3a://lake/a`b", "delta.`s3a://lake/a``b`"),
    ],
)
def test_table_in_sql_by_name_or_path(place: str, in_sql: str) -> None:
    """SQL refers to a table by its name or by its quoted path."""
    assert table_in_sql(place) == in_sql
    assert is_name(place) is (in_sql == place)


@pytest.mark.parametrize("word", ["clicks", ".", "clicks."])
def test_a_word_alone_may_be_a_table_or_a_folder(word: str) -> None:
    with pytest.raises(ValueError) as caught:
        parsers.table(word)
    assert str(caught.value) == f"is {word!r}; for a table of a catalog write default.{word}, for a folder ./{word}"


def test_tables_by_name() -> None:
    """A table by name is not the same as any folder, and two options cannot share it."""
    check_folders({"a": "lake.t", "b": "/lake/t", "c": "lake.t2", "d": "main.lake.t"}, {"a", "c", "d"})
    for same in ("lake.t", "Lake.T", "`lake`.t"):
        with pytest.raises(ConfigurationError, match=r"^a and b are the same folder"):
            check_folders({"a": "lake.t", "b": same}, {"a", "b"})
    with pytest.raises(ConfigurationError, match=r"^b is 'lake\.t', without a slash"):
        check_folders({"a": "lake.t", "b": "lake.t"}, {"a"})
    assert check_folders({"a": " lake.t ", "b": None, "c": " /c"}, {"a", "b"}) == {"a": "lake.t", "c": "/c"}


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "table")
    with pytest.raises(ConfigurationError, match="a and b are"):
        check_folders({"a": f"{tmp_path}/link/offsets", "b": f"{tmp_path}/table"})
