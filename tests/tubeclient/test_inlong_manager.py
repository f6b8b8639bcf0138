"""The client of InLong's Manager, against a server that answers as it does, and against worse ones."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from tests.certificates import CertificateAuthority, server_context
from tests.tubeclient.inlong_manager import KEY, USER, field, group, managing, stream
from tubeclient import ConfigurationError, TransportError, TubeError
from tubeclient.admin.inlong_manager import InlongManager

CLICKS = stream("clicks", field("id", "long"), field("at", "timestamp", fieldFormat="yyyyMMddHHmmss"))
ORDERS = stream("orders.v1", field("id", "int"), field("day", "string", isPredefinedField=1), dataType="JSON")
STREAMS = {"orders.v1": ORDERS, "clicks": CLICKS}


def client(address: str, **more: Any) -> InlongManager:
    return InlongManager(address, USER, **{"key": KEY, "timeout_ms": 20_000, **more})


def body(
    text: bytes, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})
) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        with contextlib.suppress(OSError):  # the client may have read enough
            request.wfile.write(text)

    return answer


def test_topic_masters_and_streams() -> None:
    """The client reads a group's topic, its masters, and its stream definitions."""
    with managing(STREAMS) as asked:
        manager = client(asked.address)
        found = manager.group("shop")
        assert (found.topic, found.cluster_tag) == ("shop_topic", "default_cluster")
        assert manager.masters(found) == ["10.0.0.1:8715,10.0.0.2:8715"]
        streams = manager.streams("shop")
    assert list(streams) == ["clicks", "orders.v1"]
    assert json.loads(streams["clicks"]) == {
        "inlongStreamId": "clicks",
        "dataType": "CSV",
        "dataEncoding": "UTF-8",
        "dataSeparator": "124",
        "wrapType": "INLONG_MSG_V0",
        "fieldList": [
            {"fieldName": "id", "fieldType": "long"},
            {"fieldName": "at", "fieldType": "timestamp", "fieldFormat": "yyyyMMddHHmmss"},
        ],
    }
    assert json.loads(streams["orders.v1"])["fieldList"][1]["isPredefinedField"] == 1
    assert "s3cret" not in str(streams)
    assert asked.requests[-2:] == [
        ("/inlong/manager/openapi/stream/get?groupId=shop&streamId=clicks", ""),
        ("/inlong/manager/openapi/stream/get?groupId=shop&streamId=orders.v1", ""),
    ]


def test_definition_without_row_ids_and_times() -> None:
    """Database row IDs and modification times are not part of a stream's definition."""
    again = {**CLICKS, "version": 4, "modifyTime": "later", "sinkList": [], "dailyRecords": 11}
    again["fieldList"] = [{**one, "id": 90 + n} for n, one in enumerate(CLICKS["fieldList"])]
    with managing({"clicks": CLICKS}) as first, managing({"clicks": again}) as second:
        assert client(first.address).streams("shop") == client(second.address).streams("shop")


def test_a_tenant_is_named_in_a_header() -> None:
    with managing(STREAMS, group(tenant="retail")) as asked:
        assert client(asked.address, tenant="retail").group("shop").topic == "shop_topic"
        with pytest.raises(TubeError, match=r"HTTP 403.*user lake, tenant public"):
            client(asked.address).group("shop")


def test_key_is_read_for_each_call(tmp_path: Path) -> None:
    """The key is read for each call and appears in no error."""
    file = tmp_path / "key"
    file.write_text("an-old-one\n")
    with managing(STREAMS) as asked:
        manager = InlongManager(asked.address, USER, key_file=str(file))
        with pytest.raises(TubeError) as caught:
            manager.group("shop")
        file.write_text(f"{KEY}\n")
        assert manager.group("shop").topic == "shop_topic"
    assert caught.value.condition == "AUTHENTICATION_FAILED"
    assert "an-old-one" not in f"{caught.value!r} {caught.value.__context__!r} {manager!r}"


@pytest.mark.parametrize("secret", [KEY, base64.b64encode(f"{USER}:{KEY}".encode()).decode()])
def test_answer_that_repeats_key(secret: str) -> None:
    """The error masks the key if the answer repeats it."""
    refusal = json.dumps({"success": False, "errMsg": f"what is \x1b {secret}?", "data": None}).encode()
    with managing({}, answer=body(refusal)) as asked, pytest.raises(TubeError) as caught:
        client(asked.address).group("shop")
    assert "what is \\x1b ***?" in str(caught.value)
    assert caught.value.condition == "INLONG_MANAGER_FAILED"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (body(b"<html>Sign in</html>"), "group/get/shop, but the answer is an HTML page; check host, port and path"),
        (body(b'{"success": true, "data": {"mqTy'), "is not JSON, or is cut off"),
        (body(b'{"success": true, "data"', headers={"Content-Length": "4000"}), "is not JSON, or is cut off"),
        (body(b"[" * 200_000), "is not JSON"),
        (body(b"[]"), "does not have Manager's form"),
        (body(b'{"success": "yes"}'), "does not have Manager's form"),
        (body(b'{"success": true, "data": null}'), "does not have Manager's form"),
        (body(b'{"success": false}'), "no text given"),
        (body(b" " * ((32 << 20) + 2)), "has more than 33,554,432 bytes"),
        (body(b"", 401), r"HTTP 401\): give a user, its secret key"),
        (body(b"", 404), "HTTP 404; check host, port and path"),
        (body(b"", 503), "answers with HTTP 503"),
    ],
)
def test_other_answers_are_one_line(answer: Callable[[BaseHTTPRequestHandler], None], said: str) -> None:
    with managing({}, answer=answer) as asked, pytest.raises(TubeError, match=said) as caught:
        client(asked.address).group("shop")
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, TransportError) == ("503" in said)


@pytest.mark.parametrize("data", [{}, [1], [{}], [{"inlongStreamId": ""}]])
def test_a_list_of_streams_that_is_none(data: object) -> None:
    answer = body(json.dumps({"success": True, "errMsg": None, "data": data}).encode())
    with managing({}, answer=answer) as asked, pytest.raises(TubeError, match="stream/list"):
        client(asked.address).streams("shop")


def test_a_redirect_is_not_followed() -> None:
    with managing(STREAMS) as other:
        answer = body(b"", 302, {"Location": f"{other.address}/inlong/manager/openapi/group/get/shop"})
        with managing({}, answer=answer) as asked, pytest.raises(TubeError, match="HTTP 302, a redirect"):
            client(asked.address).group("shop")
    assert not other.requests


@pytest.mark.parametrize("drips", [False, True])
def test_server_that_hangs_or_drips(drips: bool) -> None:
    """The call ends with its deadline if the server hangs or drips."""
    over = threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.02):
                request.wfile.write(b"H" * drips)

    with managing({}, answer=answer) as asked:
        try:
            with pytest.raises(TransportError, match=r"no answer of InLong's Manager at http://127.*time"):
                client(asked.address, timeout_ms=400).streams("shop")
        finally:
            over.set()


def test_deadline_spans_requests() -> None:
    """The deadline applies to all requests of a method together."""
    over = threading.Event()
    brief = [{"inlongStreamId": f"s{number}"} for number in range(1_000)]
    one = {"dataType": "json", "fieldList": []}

    def answer(request: BaseHTTPRequestHandler) -> None:
        over.wait(0.1)
        body(json.dumps({"success": True, "data": brief if "list" in request.path else one}).encode())(request)

    with managing({}, answer=answer) as asked:
        with pytest.raises(TransportError, match="no answer"):
            client(asked.address, timeout_ms=500).streams("shop")
        over.set()
    assert len(asked.requests) < 20


def mail(request: BaseHTTPRequestHandler) -> None:
    request.wfile.write(b"220 mail\r\n")


def test_no_server_and_one_that_does_not_speak_http() -> None:
    said = r"no answer of InLong's Manager at http://127.*220 mail"
    with managing({}, answer=mail) as asked, pytest.raises(TransportError, match=said):
        client(asked.address).group("shop")
    with pytest.raises(TransportError, match=r"no answer of InLong's Manager at http://127.*refused"):
        client(asked.address).group("shop")


def test_https_with_a_ca_file(tmp_path: Path) -> None:
    ours, others = CertificateAuthority(tmp_path / "ours"), CertificateAuthority(tmp_path / "others")
    with managing(STREAMS, tls=server_context(ours.issue("manager"))) as asked:
        assert list(client(asked.address, ca_file=ours.ca_file).streams("shop")) == ["clicks", "orders.v1"]
        with pytest.raises(TransportError, match=r"no answer.*certificate verify failed"):
            client(asked.address, ca_file=others.ca_file).group("shop")
        with pytest.raises(ConfigurationError, match=r"ca_file.*cannot be used"):
            client(asked.address, ca_file=str(tmp_path / "none")).group("shop")


def test_https_ends_with_the_deadline_too(tmp_path: Path) -> None:
    ours, over = CertificateAuthority(tmp_path), threading.Event()

    def answer(request: BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            while not over.wait(0.02):
                request.wfile.write(b"H")

    with managing({}, answer=answer, tls=server_context(ours.issue("manager"))) as asked:
        try:
            with pytest.raises(TransportError, match=r"in time|timed out"):
                client(asked.address, ca_file=ours.ca_file, timeout_ms=400).group("shop")
        finally:
            over.set()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"mqType": "PULSAR"}, "group shop uses PULSAR, not TubeMQ"),
        ({"mqResource": None}, "group shop has no topic yet"),
    ],
)
def test_a_group_that_has_no_topic_of_tubemq(more: dict[str, Any], said: str) -> None:
    with managing(STREAMS, group(**more)) as asked, pytest.raises(ConfigurationError, match=said):
        client(asked.address).group("shop")


def test_a_group_that_manager_does_not_have() -> None:
    with managing(STREAMS) as asked:
        with pytest.raises(TubeError, match=r"refuses group/get/shops: Inlong group does not exist.*tenant public"):
            client(asked.address).group("shops")
        assert client(asked.address).streams("shops") == {}
        with pytest.raises(ConfigurationError, match="'a/b' is not an InLong group"):
            client(asked.address).group("a/b")


@pytest.mark.parametrize(
    "address",
    ["", "ftp://host", "http://", "http://host:0x", "http://a:pass@host", "http://host?a=1", "ho st", "h:1:2"],
)
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(ConfigurationError, match="must look like http://host:8083") as caught:
        client(address)
    assert "pass@" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("host", "http://host:8083/inlong/manager"),
        ("10.0.0.1:80/", "http://10.0.0.1:80/inlong/manager"),
        ("https://host/behind/it/", "https://host:443/behind/it"),
        ("http://[::1]:1", "http://[::1]:1/inlong/manager"),
    ],
)
def test_addresses(given: str, asked: str) -> None:
    assert client(given).address == asked


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"key": None}, "give both the user and the key"),
        ({"user": None}, "give both the user and the key"),
        ({"user": "a:b"}, "without colons"),
        ({"tenant": "a\r\nb"}, "must be ASCII"),
        ({"ca_file": "x"}, "is not https"),
    ],
)
def test_arguments_that_do_not_fit(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        InlongManager("host", **{"user": USER, "key": KEY, **arguments})


def test_key_with_colon() -> None:
    """The client refuses a key that Manager would cut and does not show it."""
    with pytest.raises(ConfigurationError, match="the key contains a colon") as caught:
        client("host", key="half:half").group("shop")
    assert "half" not in str(caught.value)


def test_no_user() -> None:
    """Without a user, the client sends no credentials, and Manager refuses it."""
    with managing(STREAMS) as asked, pytest.raises(TubeError, match=r"HTTP 403.*user none"):
        InlongManager(asked.address).group("shop")
    assert "authorization" not in asked.headers[0]
