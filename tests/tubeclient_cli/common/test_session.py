"""The session of a command, and the settings that spark-submit gets in its stead."""

from __future__ import annotations

from pathlib import Path

from tubeclient_cli.common.session import REDACTION_REGEX

ROOT = Path(__file__).resolve().parents[3]


def test_spark_submit_gets_the_same_redaction_as_the_command() -> None:
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("spark.redaction.regex")]
    assert line.split(maxsplit=1)[1] == REDACTION_REGEX
