"""A server that takes OpenLineage's events, and judges them by OpenLineage's own schemas."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

_SCHEMAS = json.loads(Path(__file__).with_name("openlineage.json").read_text())["schemas"]
_REGISTRY: Registry[Any] = Registry().with_resources((one["$id"], Resource.from_contents(one)) for one in _SCHEMAS)
_EVENT = f"{_SCHEMAS[0]['$id']}#/$defs/RunEvent"


class LineageServer:
    """The events that came. While `hangs` it answers nothing; otherwise it answers with `status`."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.url = ""
        self.status = 200
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.asked = threading.Event()
        """Set once a request is there."""

    @property
    def states(self) -> list[str]:
        return [one["eventType"] for one in self.events]


@contextmanager
def own_environment(home: Path) -> Iterator[None]:
    """Within it OpenLineage's client finds nobody's configuration. What it finds it writes into the environment."""
    before = {**os.environ}
    os.environ["HOME"] = str(home)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def lineage_server(home: Path) -> Iterator[LineageServer]:
    """The server, to which OpenLineage's client sends within it."""
    server = LineageServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.asked.set()
            server.goes_on.wait(60)
            server.headers.append(dict(self.headers))
            server.events.append(json.loads(body))
            self.send_response(server.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listening.daemon_threads = True
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    server.url = f"http://127.0.0.1:{listening.server_port}"
    try:
        with own_environment(home):
            os.environ["OPENLINEAGE_URL"] = server.url
            yield server
    finally:
        server.goes_on.set()
        listening.shutdown()
        listening.server_close()
        thread.join(10)


def check(event: dict[str, Any]) -> None:
    """AssertionError: the event, or a facet of it, is not of its schema."""
    _check(event, _EVENT)
    entities = [event["run"], event["job"], *event["inputs"], *event["outputs"]]
    kinds = ("facets", "inputFacets", "outputFacets")
    facets = [facet for one in entities for kind in kinds for facet in one.get(kind, {}).values()]
    assert facets
    for facet in facets:
        _check(facet, facet["_schemaURL"])


def _check(value: object, schema: str) -> None:
    found = [one.message for one in Draft202012Validator({"$ref": schema}, registry=_REGISTRY).iter_errors(value)]
    assert found == [], found
