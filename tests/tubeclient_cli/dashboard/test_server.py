"""What the server gives to whom."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tubeclient_cli.dashboard.world import facts, group, key, read
from tests.waiting import wait_for
from tubeclient_cli.dashboard import server as page_server
from tubeclient_cli.dashboard.server import PageServer, is_own_host


@pytest.fixture
def server() -> Iterator[PageServer]:
    some = facts(group(read(key(0), 3, 10)))
    with PageServer(("127.0.0.1", 0), lambda wait_s: some, ["dash.example"]) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield running
        running.shutdown()
        thread.join(30)


def ask(
    server: PageServer, path: str, method: str = "GET", host: str = "localhost"
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    try:
        connection.request(method, path, headers={"Host": host})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()
    finally:
        connection.close()


def test_the_page_and_all_that_it_names_are_served_here(server: PageServer) -> None:
    status, headers, page = ask(server, "/")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert b"uPlot" in page
    for path in server.files:
        status, _, body = ask(server, path)
        assert status == 200
        assert body


def test_nothing_names_another_place() -> None:
    folder = Path(__file__).parents[3] / "tubeclient_cli" / "dashboard" / "page"
    for path in folder.iterdir():
        if not path.name.startswith("uPlot"):
            text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "//" not in text.replace("// ", "").replace("/*", ""), path.name


def test_every_answer_forbids_scripts_and_requests_elsewhere(server: PageServer) -> None:
    for path in ("/", "/data.json", "/nothere"):
        policy = ask(server, path)[1]["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy


def test_data_are_the_model_and_partitions_can_be_searched(server: PageServer) -> None:
    status, headers, body = ask(server, "/data.json?group=")
    assert (status, headers["Content-Type"], headers["Cache-Control"]) == (200, "application/json", "no-store")
    assert json.loads(body)["groups"][0]["rowsBehind"] == 7
    status, _, body = ask(server, "/partitions.json?group=clicks_etl%20on%20clicks&text=1:clicks")
    assert (status, json.loads(body)["found"]) == (200, 1)
    assert ask(server, "/partitions.json?group=unknown")[0] == 404


@pytest.mark.parametrize(
    ("request_", "status"),
    [(b"TRACE / HTTP/1.1\r\n\r\n", b"501"), (b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 70_000), b"414")],
)
def test_what_python_refuses_itself_forbids_them_too(server: PageServer, request_: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
        connection.sendall(request_)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 %s " % status)
    assert b"default-src 'none'" in answer
    assert b"<html" not in answer.lower()


def test_a_request_that_comes_byte_by_byte_keeps_no_thread(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "_CLIENT_TIMEOUT_S", 0.5)
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-A: ")
        connection.settimeout(0.1)
        ended = time.monotonic() + 20
        while time.monotonic() < ended:
            try:
                connection.sendall(b"a")
                if connection.recv(1) == b"":
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    raise AssertionError("the server still listens")


def test_many_who_say_nothing_take_a_few_threads_and_no_more(server: PageServer) -> None:
    with contextlib.ExitStack() as held:
        for _ in range(200):
            held.enter_context(socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30))
        with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=10) as one_more:
            assert one_more.recv(1) == b""
        assert sum("process_request" in one.name for one in threading.enumerate()) <= server.at_once
    wait_for(lambda: "process_request" not in str(threading.enumerate()), "all to be gone")
    assert ask(server, "/")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_written(server: PageServer, method: str) -> None:
    status, headers, _ = ask(server, "/data.json", method)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "header",
    [
        "Content-Length: 47",
        "Content-Length: x",
        "Transfer-Encoding: chunked",
        "Content-Length: 0\r\nContent-Length: 47",
        "Content-Length : 47",
        "Transfer-Encoding : chunked",
        "no header\r\nContent-Length: 47",
    ],
)
def test_a_body_is_not_taken_for_the_next_request(server: PageServer, header: str) -> None:
    """A proxy that keeps its connection would give the second answer to somebody else."""
    inner = b"GET /data.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
        connection.sendall(b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\n" + header.encode() + b"\r\n\r\n")
        connection.sendall(inner)
        answer = b""
        try:
            while part := connection.recv(65_536):
                answer += part
        except ConnectionResetError:
            pass  # what it has not read, it drops
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("path", ["/data.json", "/partitions.json", "/"])
def test_too_many_fields_get_an_answer(server: PageServer, path: str) -> None:
    status, _, body = ask(server, f"{path}?{'&'.join('group=g' for _ in range(21))}")
    assert (status, body) == (400, b"The address has more than 20 fields.\n")


@pytest.mark.parametrize("path", ["/data.json", "/partitions.json", "/"])
@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("group=1%20bad%0Aname+on+clicks", "The address names no group: "),
        ("group=a%23b", "The address names no group: "),
        (f"group={'x' * 2_000}+on+clicks", "The address names no group: "),
        ("group=%FF", "The address is not UTF-8"),
    ],
)
def test_what_cannot_be_a_group_is_refused_in_one_line(server: PageServer, path: str, field: str, said: str) -> None:
    status, _, body = ask(server, f"{path}?{field}")
    text = body.decode()
    assert (status, text.startswith(said), text.count("\n"), len(text) < 600) == (400, True, 1, True), text


def test_head_is_an_answer_without_a_body(server: PageServer) -> None:
    answer = b""
    with socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=30) as connection:
        connection.sendall(b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while piece := connection.recv(65_536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("path", ["/../setup.py", "/command.py", "/page/main.js", "/%2e%2e/facts.py", "//etc/passwd"])
def test_only_the_pages_files_are_served(server: PageServer, path: str) -> None:
    assert ask(server, path)[0] == 404


@pytest.mark.parametrize(
    ("header", "own"),
    [
        ("localhost:8717", True),
        ("127.0.0.1:9", True),
        ("[::1]:8717", True),
        ("10.1.2.3", True),
        ("LOCALHOST", True),
        ("dash.example:1", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example:8717", False),
        ("", False),
        ("[", False),
        (None, False),
    ],
)
def test_a_foreign_host_is_refused(server: PageServer, header: str | None, own: bool) -> None:
    assert is_own_host(header, ["dash.example"]) is own
    if header:
        assert ask(server, "/data.json", host=header)[0] == (200 if own else 421)
