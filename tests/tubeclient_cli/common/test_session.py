"""The session of a command, and the settings that spark-submit gets in its stead."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage

from spark_source.session import _CONFS, _DELTA_CONFS
from tests.ports import held_port
from tubeclient.errors import ConfigurationError
from tubeclient_cli.common import session
from tubeclient_cli.common.session import make_session

ROOT = Path(__file__).resolve().parents[3]


def test_spark_submit_settings() -> None:
    """spark-submit gets the same settings as the command."""
    lines = (ROOT / "conf" / "spark-defaults.conf").read_text().splitlines()
    submitted = dict(line.split(maxsplit=1) for line in lines if line.startswith("spark."))
    of_terminals = ("spark.ui.", "spark.log.")
    own = {name: text for name, text in {**_CONFS, **_DELTA_CONFS}.items() if not name.startswith(of_terminals)}
    assert {name: submitted.get(name) for name in own} == own


def test_missing_delta_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Py4J has a package in place of each name that the JVM does not know."""
    without = spark_with(JavaPackage("io.delta.tables.DeltaTable", None))
    ended: list[object] = []
    monkeypatch.setattr(session, "session_builder", lambda *_, **__: SimpleNamespace(getOrCreate=lambda: without))
    monkeypatch.setattr(session, "end_session", ended.append)
    for name in ("start_jvm", "end_after_jvm"):
        monkeypatch.setattr(session, name, lambda *_: None)
    with pytest.raises(ConfigurationError, match="Spark is running without Delta's jars") as caught:
        make_session("ingest", None, {})
    assert (caught.value.condition, ended) == ("JARS_NOT_FOUND", [without])


def spark_with(delta_table: object) -> Any:
    tables = SimpleNamespace(DeltaTable=delta_table)
    return SimpleNamespace(_jvm=SimpleNamespace(io=SimpleNamespace(delta=SimpleNamespace(tables=tables))))


SERVER = "the server's URL"


class Builder:
    """Of a session; keeps what it is asked for."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    def appName(self, name: str) -> Builder:
        return self.config("name", name)

    def remote(self, url: str) -> Builder:
        return self.config("remote", url)

    def config(self, name: str, value: str) -> Builder:
        self.given[name] = value
        return self

    def getOrCreate(self) -> dict[str, str]:
        return self.given


@pytest.mark.parametrize(
    ("variable", "master", "confs", "given"),
    [
        (SERVER, None, {"a": "b"}, {"a": "b"}),
        (None, SERVER, {}, {"remote": SERVER}),
        (None, None, {"spark.master": SERVER, "a": "b"}, {"remote": SERVER, "a": "b"}),
        (None, None, {"spark.remote": SERVER}, {"spark.remote": SERVER}),
    ],
)
def test_spark_connect_starts_no_jvm(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, master: str | None, confs: dict[str, str], given: Any
) -> None:
    """Settings that ask for Spark Connect start no JVM."""
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", Builder())
    with held_port() as port:
        url = f"sc://127.0.0.1:{port}/;token=t"

        def there(settings: dict[str, str]) -> dict[str, str]:
            return {name: url if value == SERVER else value for name, value in settings.items()}

        if variable is not None:
            monkeypatch.setenv("SPARK_REMOTE", url)
        with socket.create_server(("127.0.0.1", port)):
            made: Any = make_session("ingest", url if master else None, there(confs))
        assert made == {"name": "ingest", **there(given)}
        with pytest.raises(ConnectionError, match=r"^no Spark Connect server answers at 127\.0\.0\.1:\d+: "):
            make_session("ingest", url if master else None, there(confs))
