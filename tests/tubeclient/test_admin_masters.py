"""Whichever master is active answers; those that cannot are passed over, each within its time."""

from __future__ import annotations

import logging
import threading
import urllib.parse
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from embedded_tubemq import DEFAULT_TOKEN
from embedded_tubemq.cluster import EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from tests.tubeclient.fake_web import serving
from tubeclient import (
    Admin,
    ClientSettings,
    ProtocolError,
    RemoteError,
    StandbyMaster,
    TransportError,
)

# Loopback addresses, which share the one web port of the settings; the cluster's master is at ACTIVE.
ACTIVE, DEAD, OTHER, THIRD = "127.0.0.1", "127.0.0.3", "127.0.0.4", "127.0.0.5"
TOPICS = ["clicks", "single"]


def admin_of(settings: ClientSettings, *hosts: str, token: str = DEFAULT_TOKEN) -> Admin:
    """Asks the masters of these hosts, each for half a second."""
    servers = tuple(f"{host}:8715" for host in hosts)
    return Admin(replace(settings, master_servers=servers, http_timeout_ms=500), modify_token=token)


def test_dead_and_standby_masters_are_passed_over(
    cluster: EmbeddedTubeMQ, settings: ClientSettings, tmp_path: Path
) -> None:
    cluster.master_faults.standby = True
    topics, web_port = [TopicConfig("elsewhere")], settings.master_web_port
    with EmbeddedTubeMQ(tmp_path / "other", topics, host=OTHER, master_web_port=web_port):
        assert admin_of(settings, DEAD, ACTIVE, OTHER).topic_names() == ["elsewhere"]
    with pytest.raises(TransportError, match=rf"{DEAD}:{web_port} .*refused; .*{ACTIVE}:{web_port} failed"):
        admin_of(settings, DEAD, ACTIVE).topic_names()
    with pytest.raises(StandbyMaster, match=ACTIVE):
        admin_of(settings, ACTIVE).topic_names()


def test_where_a_standby_sends_callers_nobody_goes(settings: ClientSettings) -> None:
    def redirect(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", f"http://{THIRD}:{settings.master_web_port}{request.path}")
        request.end_headers()

    with (
        serving(OTHER, settings.master_web_port, redirect) as asked,
        serving(THIRD, settings.master_web_port, redirect) as followed,
    ):
        admin_of(settings, OTHER, ACTIVE).create_topic("made")
        with pytest.raises(StandbyMaster, match=OTHER):
            admin_of(settings, OTHER).topics()
    assert len(asked) == 4  # the brokers, the topic, the brokers' reload; then the topics
    assert followed == []
    assert "made" in admin_of(settings, ACTIVE).topic_names()


def test_a_master_that_never_finishes_is_given_up(settings: ClientSettings) -> None:
    done = threading.Event()

    def say_nothing(request: BaseHTTPRequestHandler) -> None:
        done.wait()

    def trickle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not done.wait(0.05):
            try:
                request.wfile.write(b" ")
            except OSError:
                return

    for answer in (say_nothing, trickle):
        done.clear()
        with serving(OTHER, settings.master_web_port, answer):
            try:
                assert admin_of(settings, OTHER, ACTIVE).topic_names() == TOPICS
                with pytest.raises(TransportError, match=rf"http://{OTHER}.*(timed out|in time)"):
                    admin_of(settings, OTHER).groups()
            finally:
                done.set()


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (200, b"<html>hello</html>", "not JSON"),
        (200, b'{"result": true, "errCode": 0, "data": {}}', "instead of a list"),
        (200, b'{"result": true, "errCode": 0}', "without the field data"),
        (500, b"", "HTTP 500"),
    ],
)
def test_a_server_that_is_no_master_is_passed_over(
    settings: ClientSettings, status: int, body: bytes, text: str
) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.end_headers()
        request.wfile.write(body)

    with serving(OTHER, settings.master_web_port, answer):
        assert admin_of(settings, OTHER, ACTIVE).topic_names() == TOPICS
        with pytest.raises(TransportError, match=text) as caught:
            admin_of(settings, OTHER, DEAD).topic_names()
        assert DEAD in str(caught.value)


def test_the_token_is_told_to_nobody_but_the_master(settings: ClientSettings, caplog: pytest.LogCaptureFixture) -> None:
    secret = "open-sesame"
    written = urllib.parse.quote_plus(secret)

    def echo(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        is_query = "admin_query_broker_run_status" in request.path
        answer = '{"result": true, "errCode": 0, "data": []}' if is_query else refusals.pop().replace("%", secret)
        request.wfile.write(answer.encode())

    refusals = [
        '{"result": false, "errCode": 400, "errMsg": "unauthorized: %"}',
        '{"result": false, "errCode": 400, "errMsg": "% is wrong"}',
        '{"result": true, "errCode": 0, "data": "%"}',
        '{"result": true, "errCode": 0, "data": [{"success": false, "errInfo": "%"}]}',
    ]
    caplog.set_level(logging.DEBUG)
    said = []
    with serving(OTHER, settings.master_web_port, echo) as asked:
        for host in (ACTIVE, DEAD, OTHER, OTHER, OTHER, OTHER):
            admin = admin_of(settings, host, token=secret)
            with pytest.raises((RemoteError, TransportError, ProtocolError)) as caught:
                admin.create_topic("made")
            error: BaseException | None = caught.value
            while error is not None:
                said.append(f"{error!r} {error} {vars(error)}")
                error = error.__cause__ or error.__context__
            said.append(f"{admin!r} {admin}")
    assert refusals == []
    changes = [request for request in asked if "admin_add_new_topic_record" in request]
    assert len(changes) == 4
    assert all(written in request.partition(" ")[2] for request in changes)
    assert not any(written in request.partition(" ")[0] for request in asked)
    assert "sesame" not in " ".join(said) + caplog.text
