"""Places of tables in errors: without the password in their URI."""

from __future__ import annotations

from typing import Any

import pytest

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.terminal import tell
from tubeclient_ingest.target import SparkTable

PLACE = "s3a://KEY:the/secret@lake/t"
NO_SPARK: Any = None


def test_a_commit_of_a_newer_release_is_named_without_the_password() -> None:
    with pytest.raises(ConfigurationError, match=r"^version 3 of delta\.`s3a://lake/t`: ") as caught:
        SparkTable(NO_SPARK, PLACE)._commit({"version": 3, "userMetadata": '{"tubeclient": {"version": 99}}'})
    assert "secret" not in str(caught.value)


def test_no_line_of_a_command_has_a_password_of_a_uri(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"cannot list {PLACE}: no such bucket")
    assert capsys.readouterr().err == "cannot list s3a://lake/t: no such bucket\n"
