"""Iceberg tables in catalogs of users' own: Apache's REST server, with tables in a folder and in S3, and Glue. Without
Spark.

Glue and S3 are moto's. Its Glue takes a commit whatever version the table has, so that two commits at the same moment
exclude each other is shown for REST alone. One after the other, pyiceberg itself refuses the second.
"""

from __future__ import annotations

import re
import textwrap
import threading
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_source.read.schema import arrow_types
from tests.distributions import ROOT
from tests.http_gate import Answer, Gate
from tests.ports import silent_server
from tests.tubeclient_ingest.iceberg_catalogs import CATALOGS, Described, describe, pyiceberg_home
from tests.tubeclient_ingest.test_iceberg_table import COLUMNS, KEY, Writing
from tubeclient.errors import ConfigurationError
from tubeclient_ingest.commits.beginning import OvertakenRun
from tubeclient_ingest.tables import iceberg_catalog
from tubeclient_ingest.tables.data_files import DataFiles
from tubeclient_ingest.tables.iceberg_table import IcebergTable
from tubeclient_ingest.tables.spark_errors import LogError

__all__ = ["pyiceberg_home"]
pytestmark = pytest.mark.apache

SECRET = "s3cr3t-of-mine"
WRITERS = 4


@pytest.fixture(scope="module", params=CATALOGS)
def any_catalog(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    with CATALOGS[request.param](tmp_path_factory.mktemp("catalog")) as found:
        yield found


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    with CATALOGS["rest in a folder"](tmp_path_factory.mktemp("catalog")) as found:
        yield found


@pytest.fixture
def gate(rest: Described, pyiceberg_home: Path) -> Iterator[Gate]:
    """Of the catalog `lake`."""
    describe(pyiceberg_home, lake=rest.properties)
    assert rest.gate is not None
    yield rest.gate
    rest.gate.answer = lambda method, path: Answer.GIVEN


def writing(request: pytest.FixtureRequest, storage: Described | None = None) -> Writing:
    """A driver, with a table for this test."""
    options = {} if storage is None else storage.storage_options
    return Writing(None, f"lake.shop.t{abs(hash(request.node.name))}", options=options)


def test_of_two_runs_on_the_same_snapshot_one_commits(
    any_catalog: Described, pyiceberg_home: Path, request: pytest.FixtureRequest
) -> None:
    describe(pyiceberg_home, lake=any_catalog.properties)
    first, second = (writing(request, any_catalog).open() for _ in range(2))
    first.write((1, "a"), (2, None), end=56)
    with pytest.raises(OvertakenRun):
        second.write((1, "a"), end=28)
    first.write((3, "c"), end=84)
    assert first.rows() == [(1, "a"), (2, None), (3, "c")]
    again = writing(request, any_catalog).open()
    assert (again.state.sequence, dict(again.state.ends)) == (2, {KEY: 84})


def at_once(*calls: Any) -> list[Any]:
    """What came of calls that begin at the same moment."""
    ready = threading.Barrier(len(calls))

    def call(one: Any) -> Any:
        ready.wait(30)
        try:
            return one()
        except (OvertakenRun, LogError) as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


@pytest.mark.usefixtures("gate")
def test_runs_that_commit_at_once(request: pytest.FixtureRequest) -> None:
    """Of runs that commit at the same moment, one succeeds, and the others are overtaken."""
    writing(request).open()
    won = []
    for number in range(4):
        drivers = [writing(request).open() for _ in range(WRITERS)]
        writes = [partial(one.write, (number, f"{who}"), end=28 * (number + 1)) for who, one in enumerate(drivers)]
        done = at_once(*writes)
        winners = [who for who, one in enumerate(done) if not isinstance(one, Exception)]
        assert len(winners) == 1, done
        assert all(isinstance(one, OvertakenRun) for who, one in enumerate(done) if who not in winners), done
        won.append((number, str(winners[0])))
    assert writing(request).open().rows() == won


@pytest.mark.usefixtures("gate")
def test_files_without_a_record_at_once(
    request: pytest.FixtureRequest,
) -> None:
    """Several writers that commit files without a record at the same moment all add them once."""
    drivers = [writing(request).open() for _ in range(WRITERS)]

    def add(one: Writing, number: int) -> None:
        files = DataFiles(one.table.destination(arrow_types(COLUMNS)))
        files.add(pa.table({"id": [number], "name": ["a"]}))
        one.table.commit(files.close())

    done = at_once(*(partial(add, one, number) for number, one in enumerate(drivers)))
    assert done == [None] * WRITERS
    assert drivers[0].rows() == [(number, "a") for number in range(WRITERS)]


@pytest.mark.parametrize("how", [Answer.BROKEN, Answer.CLOSED])
def test_a_commit_whose_answer_is_lost_is_there_once(gate: Gate, how: Answer, request: pytest.FixtureRequest) -> None:
    one = writing(request).open()
    lost: list[str] = []

    def answer(method: str, path: str) -> Answer:
        if method != "POST" or "/tables/" not in path or lost:
            return Answer.GIVEN
        lost.append(path)
        return how

    gate.answer = answer
    with pytest.raises(LogError, match="Check that the catalog lake"):
        one.write((1, "a"), end=28)
    assert lost
    again = writing(request).open()
    assert (again.state.sequence, dict(again.state.ends)) == (1, {KEY: 28})
    again.write((2, "b"), end=56)
    assert again.rows() == [(1, "a"), (2, "b")]


def test_silent_catalog(gate: Gate, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """At the first request, and later."""
    table = writing(request).open().table
    monkeypatch.setattr(iceberg_catalog, "_TIMEOUTS", (5.0, 2.0))
    iceberg_catalog.open_catalog.cache_clear()
    gate.answer = lambda method, path: Answer.SILENT
    refused_of(table.where, r"read timeout=2\.0.*Check that the catalog lake")
    gate.answer = lambda method, path: Answer.GIVEN
    assert table.detail()
    gate.answer = lambda method, path: Answer.SILENT
    refused_of(table.where, r"read timeout=2\.0.*Check that the catalog lake")


def rest_at(uri: str) -> dict[str, str]:
    return {"type": "rest", "uri": uri, "oauth2-server-uri": f"{uri}/v1/oauth/tokens"}


def refused_of(name: str, match: str, kind: type[Exception] = LogError) -> str:
    with pytest.raises(kind, match=match) as caught:
        IcebergTable(None, name, None, {}).detail()
    text = str(caught.value)
    assert SECRET not in text
    assert name in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "secret",
    [
        {"token": SECRET},
        {"credential": f"me:{SECRET}"},
        {"credential": SECRET},
        {"header.Authorization": f"Bearer {SECRET}"},
    ],
    ids=["token", "id and secret", "secret", "header"],
)
def test_who_is_not_let_in_reads_no_secret(gate: Gate, pyiceberg_home: Path, secret: dict[str, str]) -> None:
    describe(pyiceberg_home, closed={**rest_at(gate.uri), **secret})
    text = refused_of("closed.shop.orders", "NotAuthorizedException|invalid_client")
    assert "Check that the catalog closed and its storage answer" in text


def test_a_token_with_the_end_of_its_line(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a file's: it can be in no header, and the error shows the header."""
    monkeypatch.setenv("PYICEBERG_CATALOG__LINE__URI", gate.uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__LINE__TOKEN", f"{SECRET}\n")
    refused_of("line.shop.orders", "Invalid header value")


def test_a_catalog_that_is_not_there(pyiceberg_home: Path) -> None:
    describe(pyiceberg_home, gone={"type": "rest", "uri": "http://127.0.0.1:1", "token": SECRET})
    refused_of("gone.shop.orders", r"Connection refused.*catalog gone")


def test_an_unknown_catalog(pyiceberg_home: Path) -> None:
    describe(pyiceberg_home, known={"type": "rest", "uri": "http://127.0.0.1:1", "token": SECRET})
    refused_of("lake.shop.orders", "pyiceberg does not know lake", ConfigurationError)


@pytest.mark.parametrize("any_catalog", ["rest in S3", "glue in S3"], indirect=True)
def test_a_wrong_key_of_the_storage(
    any_catalog: Described, pyiceberg_home: Path, request: pytest.FixtureRequest
) -> None:
    describe(pyiceberg_home, lake=any_catalog.properties)
    writing(request, any_catalog).open()
    wrong = {name: SECRET for name in any_catalog.properties if "-key" in name}
    describe(pyiceberg_home, lake={**any_catalog.properties, **wrong})
    with pytest.raises(LogError) as caught:
        writing(request, any_catalog).open().write((1, "a"), end=28)
    text = str(caught.value)
    assert SECRET not in text
    assert "INVALID_ACCESS_KEY_ID" in text or "security token" in text
    assert "Check that the catalog lake and its storage answer" in text
    describe(pyiceberg_home, lake=any_catalog.properties)
    assert writing(request, any_catalog).open().rows() == []


@pytest.mark.parametrize("any_catalog", ["rest in S3"], indirect=True)
def test_documented_rest_catalog_in_s3(any_catalog: Described) -> None:
    """The Iceberg page names the properties and options that a REST catalog in S3 needs."""
    page = (ROOT / "docs" / "iceberg.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^ {12}([\w.-]+): ", page, re.MULTILINE)) == set(any_catalog.properties)
    [options] = re.findall(r"\[storage-options\]\n((?: {8}\w.*\n)+)", page)
    of_this_server = {"AWS_ALLOW_HTTP", "aws_conditional_put"}  # it has no TLS; the latter is for Delta's tables
    assert set(tomllib.loads(textwrap.dedent(options))) == set(any_catalog.storage_options) - of_this_server


def test_silent_server_of_tokens(
    gate: Gate, rest: Described, pyiceberg_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A catalog that wants a token ends with an error if the server of tokens says nothing."""
    monkeypatch.setattr(iceberg_catalog, "_TIMEOUTS", (5.0, 1.0))
    with silent_server() as (port, _):
        oauth2 = f"client_id: me\nclient_secret: {SECRET}\ntoken_url: http://127.0.0.1:{port}/token"
        auth = "\ntype: oauth2\noauth2:\n" + textwrap.indent(oauth2, "  ")
        describe(pyiceberg_home, lake=rest.properties | {"auth": textwrap.indent(auth, " " * 6)})
        iceberg_catalog.open_catalog.cache_clear()
        refused_of("lake.shop.orders", r"read timeout=1\.0.*Check that the catalog lake")
