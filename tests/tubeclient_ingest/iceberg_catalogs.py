"""Catalogs of the kinds that users have, described to pyiceberg in `.pyiceberg.yaml`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pyiceberg.catalog  # noqa: F401  # it keeps what the configuration says when it is imported
import pytest

from tests.http_gate import Gate, http_gate
from tests.iceberg_rest import iceberg_rest
from tests.offsets_store.s3_server import BUCKET, s3_process
from tubeclient_ingest.tables.iceberg_catalog import open_catalog

__all__ = ["CATALOGS", "TOKEN", "Described", "describe", "glue", "rest_in_a_folder", "rest_in_a_store"]

TOKEN: Final = "the-token-of-rest"


class Described(NamedTuple):
    """How a catalog is described to pyiceberg, and its storage to tasks."""

    properties: dict[str, str]
    storage_options: dict[str, str]
    gate: Gate | None = None
    """Before a REST catalog."""


def describe(folder: Path, **catalogs: Mapping[str, str]) -> None:
    """Write `.pyiceberg.yaml` in this folder, and have pyiceberg find it in this process until the test ends."""
    lines = ["catalog:"]
    for name, properties in catalogs.items():
        lines += [f"  {name}:", *(f"    {key}: {value}" for key, value in properties.items())]
    (folder / ".pyiceberg.yaml").write_text("\n".join(lines) + "\n")
    open_catalog.cache_clear()


@pytest.fixture
def pyiceberg_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for `describe`."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("PYICEBERG_HOME", str(home))
    yield home
    open_catalog.cache_clear()


def _s3(options: Mapping[str, str]) -> dict[str, str]:
    return {
        "s3.endpoint": options["AWS_ENDPOINT_URL"],
        "s3.region": options["AWS_REGION"],
        "s3.access-key-id": options["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": options["AWS_SECRET_ACCESS_KEY"],
    }


@contextmanager
def rest_in_a_folder(folder: Path) -> Iterator[Described]:
    with iceberg_rest(folder, f"file://{folder}/warehouse") as uri, http_gate(uri, TOKEN) as gate:
        yield Described({"type": "rest", "uri": gate.uri, "token": TOKEN}, {}, gate)


@contextmanager
def rest_in_a_store(folder: Path) -> Iterator[Described]:
    with s3_process() as options:
        of_server = {
            **{name: value for name, value in _s3(options).items() if name != "s3.region"},
            "s3.path-style-access": "true",
            "client.region": options["AWS_REGION"],
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        }
        with iceberg_rest(folder, f"s3://{BUCKET}/rest", of_server) as uri, http_gate(uri, TOKEN) as gate:
            yield Described({"type": "rest", "uri": gate.uri, "token": TOKEN, **_s3(options)}, options, gate)


@contextmanager
def glue(folder: Path) -> Iterator[Described]:
    with s3_process() as options:
        own = {name.replace("s3.", "glue."): value for name, value in _s3(options).items()}
        own["glue.max-retries"] = "3"
        yield Described({"type": "glue", "warehouse": f"s3://{BUCKET}/glue", **_s3(options), **own}, options)


CATALOGS: Final[Mapping[str, Callable[[Path], AbstractContextManager[Described]]]] = {
    "rest in a folder": rest_in_a_folder,
    "rest in S3": rest_in_a_store,
    "glue in S3": glue,
}
