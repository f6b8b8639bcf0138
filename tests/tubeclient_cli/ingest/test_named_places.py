"""Places of tables and checkpoints in errors: without the password in their URI."""

from __future__ import annotations

from typing import Any

import pytest

from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.terminal import tell
from tubeclient_cli.ingest.checkpoint import Checkpoint
from tubeclient_cli.ingest.target_table import SparkTargetTable

PLACE = "s3a://KEY:the/secret@lake/t"
NO_SPARK: Any = None


def test_a_commit_of_a_newer_release_is_named_without_the_password() -> None:
    with pytest.raises(ConfigurationError, match=r"^version 3 of s3a://lake/t: ") as caught:
        SparkTargetTable(NO_SPARK, PLACE)._record(3, '{"tubeclient": {"version": 99}}')
    assert "secret" not in str(caught.value)


def test_a_damaged_checkpoint_is_named_without_the_password() -> None:
    checkpoint = Checkpoint(NO_SPARK, f"{PLACE}/")
    with (
        pytest.raises(ConfigurationError, match=r"^s3a://lake/t/metadata: cut$"),
        checkpoint._naming("metadata"),
    ):
        raise ConfigurationError("cut")


def test_no_line_of_a_command_has_a_password_of_a_uri(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"cannot list {PLACE}: no such bucket")
    assert capsys.readouterr().err == "cannot list s3a://lake/t: no such bucket\n"
