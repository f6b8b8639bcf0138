"""How long a table's store may take."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tubeclient.errors import ConfigurationError
from tubeclient_cli.app import app
from tubeclient_cli.common import table_uris
from tubeclient_cli.common.table_uris import check_folders, limited


def test_a_store_gets_limits_and_what_the_user_gave_stays() -> None:
    given = {"AWS_REGION": "eu", "TIMEOUT": "90s"}
    found = limited("s3://lake/t", given)
    assert found == {"AWS_REGION": "eu", "TIMEOUT": "90s"} | {
        name: found[name] for name in ("connect_timeout", "max_retries", "retry_timeout")
    }
    for place in ("/lake/t", "file:///lake/t"):
        assert limited(place, given) == given


@pytest.mark.parametrize(
    "words",
    [
        ["offsets", "list", "--offsets-table"],
        ["bad-records", "show"],
        ["dashboard", "--json", "--offsets-table"],
    ],
)
@pytest.mark.parametrize(("place", "why"), [("", "blank;"), (" ", "blank;"), ("mydb.visits", "'mydb.visits', without")])
def test_a_blank_path_is_not_the_working_directory_and_a_name_no_folder(words: list[str], place: str, why: str) -> None:
    done = CliRunner().invoke(app, [*words, place])
    command = " ".join(words[:1] if words[0] == "dashboard" else words[:2])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"tubeclient {command}: [INVALID_SETTING] the path of a table is {why}")


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
        with pytest.raises(ConfigurationError, match=r"^a and b are the same folder, or one is within the other"):
            check_folders(places)
    check_folders({"a": one, "b": f"{one}2", "c": None})


def test_a_link_to_a_folder_is_that_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "table")
    with pytest.raises(ConfigurationError, match="a and b are"):
        check_folders({"a": f"{tmp_path}/link/offsets", "b": f"{tmp_path}/table"})


@pytest.mark.parametrize(
    "words", [["offsets", "show", "--consumer-group", "g", "--offsets-table"], ["bad-records", "show"]]
)
def test_a_store_that_never_answers_is_one_line_with_its_address(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(table_uris._LIMITS, "timeout", "1s")
    monkeypatch.setitem(table_uris._LIMITS, "retry_timeout", "1s")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        endpoint = f"http://127.0.0.1:{listener.getsockname()[1]}"
        options = [f"AWS_ENDPOINT_URL={endpoint}", "AWS_ALLOW_HTTP=true", "AWS_REGION=us-east-1"]
        options += ["AWS_ACCESS_KEY_ID=geheimname", "AWS_SECRET_ACCESS_KEY=geheimnisvoll"]
        more = [word for option in options for word in ("--storage-option", option)]
        done = CliRunner().invoke(app, [*words, "s3://lake/table", *more])
    [line] = done.stderr.splitlines()
    assert (done.exit_code, endpoint in line, "s3://lake/table" in line, "geheim" in line) == (3, True, True, False), (
        line
    )
