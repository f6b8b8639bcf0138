"""The session of a command, and the settings that spark-submit gets in its stead."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import JavaClass, JavaPackage

from spark_source.session import REDACTION_REGEX
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common.session import check_delta

ROOT = Path(__file__).resolve().parents[3]


def test_spark_submit_gets_the_same_redaction_as_the_command() -> None:
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("spark.redaction.regex")]
    assert line.split(maxsplit=1)[1] == REDACTION_REGEX


def session_with(delta_table: object) -> Any:
    tables = SimpleNamespace(DeltaTable=delta_table)
    return SimpleNamespace(_jvm=SimpleNamespace(io=SimpleNamespace(delta=SimpleNamespace(tables=tables))))


def test_a_spark_without_deltas_jars_is_refused_before_the_first_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Py4J has a package in place of each name that the JVM does not know."""
    ended: list[object] = []
    monkeypatch.setattr("tubeclient_cli.common.session.end_session", ended.append)
    without = session_with(JavaPackage("io.delta.tables.DeltaTable", None))
    with pytest.raises(ConfigurationError, match="Spark runs without Delta's jars") as caught:
        check_delta(without)
    assert (caught.value.condition, ended) == ("JARS_NOT_FOUND", [without])
    check_delta(session_with(JavaClass.__new__(JavaClass)))
