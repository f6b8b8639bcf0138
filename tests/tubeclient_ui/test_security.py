"""Who gets in, and what every answer says to the browser."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from tests.tubeclient_ui.viewer import ORIGIN, TOKEN, client_of
from tubeclient import ClientSettings

NOWHERE = ClientSettings("127.0.0.1:1", master_web_port=1)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def client() -> TestClient:
    return client_of(NOWHERE)


def test_without_the_token_there_is_nothing(client: TestClient) -> None:
    """Not a view, not a part, not a download; the style alone, for the page that says so."""
    for path in ("/", "/cluster", "/messages?topic=clicks", "/messages/lines?search=x", "/nothing"):
        answer = client.get(path)
        assert answer.status_code == 403
        assert "tubeclient ui" in answer.text
    assert client.get("/cluster?token=wrong").status_code == 403
    assert client.get("/static/page.css").status_code == 200
    assert client.get("/static/../app.py").status_code != 200


def test_the_token_is_taken_and_shown_nowhere(client: TestClient) -> None:
    """A cookie that scripts and other pages do not get, and an address without it."""
    answer = client.get(f"/messages?topic=a%26b&token={TOKEN}")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie + answer.text
    assert 'content="0;url=/messages?topic=a%26b"' in answer.text
    shown = client.get("/messages?topic=a%26b")
    assert shown.status_code == 200
    assert TOKEN not in shown.text


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example/", "///evil.example"])
def test_the_link_leads_to_no_other_server(client: TestClient, path: str) -> None:
    """A path with two slashes would be one."""
    answer = client.get(f"{ORIGIN}{path}", params={"token": TOKEN})
    [to] = re.findall('url=([^"]+)"', answer.text)
    assert re.match(r"/[^/\\]", to)


def test_a_link_from_elsewhere_can_go_on(client: TestClient) -> None:
    """The browser leaves the cookie out there; its text is escaped."""
    answer = client.get('/messages?topic="><script>')
    assert 'href="/messages?topic=%22' in answer.text
    assert "<script>" not in answer.text


def test_another_name_of_the_host_is_refused(client: TestClient) -> None:
    """DNS rebinding: the browser believes that an evil name is this machine."""
    for host in ("evil.example", "evil.example:8720", "127.0.0.1:1", ""):
        assert client.get(f"/cluster?token={TOKEN}", headers={"Host": host}).status_code == 400
        assert client.get("/static/page.css", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("path", ["/cluster", "/nothing", f"/?token={TOKEN}", "/static/page.js"])
def test_each_answer_has_its_headers(client: TestClient, path: str) -> None:
    """Also those that refuse."""
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"


def test_a_change_comes_from_the_page_itself(client: TestClient) -> None:
    """With the cookie, a form of another page still lacks the origin and htmx's header."""
    client.get(f"/?token={TOKEN}")
    for headers in (
        {},
        HTMX,
        {"Origin": ORIGIN},
        {"Origin": "http://evil.example", **HTMX},
        {"Origin": "null", **HTMX},
    ):
        assert client.post("/moves?plan=x", headers=headers).status_code == 403
    assert client.post("/moves?plan=x", headers={"Origin": ORIGIN, **HTMX}).status_code == 200


def test_nothing_in_a_page_runs_by_itself(client: TestClient) -> None:
    """No inline script, style or handler, and nothing from another server."""
    client.get(f"/?token={TOKEN}")
    for path in ("/cluster", "/groups", "/group?name=g", "/messages?topic=t", "/move?name=g"):
        text = client.get(path).text
        assert not re.search(r"<script(?![^>]* src=\"/static/)|<style|\sstyle=|\son\w+=|https?://", text), path


def test_behind_a_proxy_the_public_name_counts() -> None:
    """In the Host header or in the origin; the cookie is for https alone."""
    client = client_of(NOWHERE, public_url="https://tube.example.com/ui")
    assert "secure" in client.get(f"/?token={TOKEN}").headers["set-cookie"].lower()
    found = re.findall(r"session=([^;]+)", client.get(f"/?token={TOKEN}").headers["set-cookie"])
    headers = {"Origin": "https://tube.example.com", "Cookie": f"session={found[0]}", **HTMX}
    assert client.post("/moves?plan=x", headers=headers).status_code == 200
    assert client.post("/moves?plan=x", headers={**headers, "Origin": "https://evil.example"}).status_code == 403
