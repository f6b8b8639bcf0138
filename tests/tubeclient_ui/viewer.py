"""Asks the page for its parts as a browser does, without one."""

from __future__ import annotations

import json
import re
from typing import Any
from zoneinfo import ZoneInfo

from starlette.testclient import TestClient

from embedded_tubemq import EmbeddedTubeMQ
from tests.waiting import wait_for
from tubeclient import ClientSettings
from tubeclient_ui.app import Options, Page
from tubeclient_ui.masks import Masks
from tubeclient_ui.security import Guard

__all__ = ["ORIGIN", "TOKEN", "Viewer", "client_of", "settings_of"]

ORIGIN = "http://127.0.0.1:8720"
TOKEN = "a-token-of-tests"


def settings_of(tube: EmbeddedTubeMQ) -> ClientSettings:
    """Of a cluster, with a short patience, as the command has it."""
    return ClientSettings(
        tube.master_address, master_web_port=tube.master_web_port, retry_limit_ms=2_000, rpc_timeout_ms=2_000
    )


def client_of(settings: ClientSettings, options: Options | None = None, public_url: str = "") -> TestClient:
    """A browser without a cookie yet."""
    zone = ZoneInfo("UTC")
    page = Page(settings, options or Options(zone, Masks([])))
    guard = Guard(page.app, TOKEN, {"127.0.0.1:8720"}, public_url, "session")
    return TestClient(guard, base_url=ORIGIN, raise_server_exceptions=True)


class Viewer:
    """Somebody who opened the link."""

    def __init__(self, settings: ClientSettings, *masks: str, **options: Any) -> None:
        zone = ZoneInfo("UTC")
        self.client = client_of(settings, Options(zone, Masks(masks), **options))
        assert self.client.get(f"/cluster?token={TOKEN}").status_code == 200

    def part(self, path: str, /, **query: object) -> str:
        """What the browser puts into the frame."""
        answer = self.client.get(
            path, params={name: str(it) for name, it in query.items()}, headers={"HX-Request": "true"}
        )
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str) -> str:
        """Press a button of the page."""
        answer = self.client.post(path, headers={"HX-Request": "true", "Origin": ORIGIN})
        assert answer.status_code == 200, answer.text
        return answer.text

    def search(self, **query: object) -> tuple[str, str]:
        """Search to the end; the search's key, and the last progress with all messages before it."""
        first = self.part("/messages", **query)
        keys = re.findall(r"search=([\w-]+)", first)
        if not keys:  # it ended at once, and found nothing
            return "", first
        key = str(keys[0])
        shown: list[str] = []

        def ended() -> bool:
            shown.append(self.part("/messages/more", search=key, after=sum(text.count("<li>") for text in shown)))
            return 'hx-trigger="load delay' not in shown[-1]

        wait_for(ended, "the end of the search", seconds=120.0)
        return key, "\n".join(shown)

    def lines(self, **query: object) -> list[dict[str, Any]]:
        """What a search finds, as its download has it."""
        key, _ = self.search(**query)
        if not key:
            return []
        text = self.client.get(f"/messages/lines?search={key}").text
        return [json.loads(line) for line in text.splitlines()]

    def values(self, **query: object) -> list[str]:
        """The values of what a search finds."""
        return [line["value"] for line in self.lines(**query)]
