"""How long a table's store may take."""

from __future__ import annotations

import socket

import pytest
from typer.testing import CliRunner

from tubeclient_cli.app import app
from tubeclient_cli.common import table_uris
from tubeclient_cli.common.table_uris import limited


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
@pytest.mark.parametrize("blank", ["", " "])
def test_a_blank_path_is_not_the_working_directory(words: list[str], blank: str) -> None:
    done = CliRunner().invoke(app, [*words, blank])
    command = " ".join(words[:1] if words[0] == "dashboard" else words[:2])
    said = f"tubeclient {command}: [INVALID_SETTING] the path of a table is blank; name its folder\n"
    assert (done.exit_code, done.stdout, done.stderr) == (2, "", said)


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
