"""What Spark shows of an error: users' errors are one line with a name, bugs keep their traceback."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable
from typing import cast

import pytest
from pyspark.util import handle_worker_exception

from offsets_store.errors import SchemaMismatch
from pyspark_tubeclient import DefaultSource
from spark_source.boundary import as_one_line
from spark_source.stream.stream_reader import TubeStreamReader
from tubeclient.errors import ConfigurationError, TopicNotDeployed
from tubeclient.extras import brought_by

OPTIONS = {"masterservers": "127.0.0.1:1", "consumergroup": "g", "subscribe": "t"}


@pytest.fixture(autouse=True)
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that Spark started."""
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.setattr("spark_source.boundary.main_module", lambda: "pyspark.daemon")


def shown(call: Callable[[], object]) -> list[str]:
    """The lines that a worker sends to the JVM."""
    out = io.BytesIO()
    try:
        call()
    except Exception as error:
        handle_worker_exception(error, out)
    return out.getvalue()[8:].decode().splitlines()


def plan_a_read(**options: str) -> None:
    source = DefaultSource({**OPTIONS, **options})
    source.streamReader(source.schema()).initialOffset()


def test_a_misspelt_option_is_one_line() -> None:
    [line] = shown(lambda: plan_a_read(sourcecuont="2"))
    kind, text = line.split(": ", 1)
    assert kind == "tubeclient.errors.ConfigurationError"
    assert text == "[UNKNOWN_OPTION] option sourcecuont is unknown; did you mean sourceCount?"


def test_known_errors_are_one_line() -> None:
    """Errors of the cluster, the table, and missing packages are one line with a name."""

    def fail(error: Exception) -> Callable[[], object]:
        @as_one_line()
        def call() -> None:
            raise error from ValueError("its cause")

        return call

    refused = TopicNotDeployed(431, "no topic", topic="t")
    for error, name in [
        (refused, "TOPIC_NOT_FOUND"),
        (SchemaMismatch("not one"), "OFFSETS_TABLE_SCHEMA"),
        (ConfigurationError("over the socket", condition="UNKNOWN_OPTION"), "UNKNOWN_OPTION"),
    ]:
        text = str(error)
        [line] = shown(fail(error))
        assert line.endswith(f"{type(error).__name__}: [{name}] {text}")

    @as_one_line()
    def import_it() -> None:
        with brought_by("delta"):
            importlib.import_module("no_such_package")

    [line] = shown(import_it)
    assert "[PACKAGE_MISSING] the package no_such_package is missing" in line

    # pyspark comes without them.
    [line] = shown(fail(ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")))
    assert line.endswith("the package pyarrow is missing; install it with pip install 'pyspark-tubeclient[spark]'")


def test_a_bug_keeps_its_traceback() -> None:
    @as_one_line()
    def call() -> None:
        raise RuntimeError("a bug")

    lines = shown(call)
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "RuntimeError: a bug"
    assert any("in call" in line for line in lines)


def test_refused_stream_options() -> None:
    """At `streamReader` itself Spark would hide it."""
    source = DefaultSource({**OPTIONS, "endingoffsets": "latest"})
    reader = source.streamReader(source.schema())
    calls: list[Callable[[], object]] = [
        reader.initialOffset,
        cast(TubeStreamReader, reader).latestOffset,
        lambda: reader.partitions({}, {}),
    ]
    for call in calls:
        [line] = shown(call)
        assert "] endingOffsets is for batch reads only" in line
