"""From lines to messages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient.outgoing import OutgoingMessage
from tubeclient_cli.produce.lines import Defaults, parser_of


def test_a_line_is_a_message() -> None:
    parse = parser_of("lines", "clicks", Defaults("web", "202611231030", {"a": "1"}))
    assert parse(b"{x} \xff") == OutgoingMessage.of(
        "clicks", b"{x} \xff", tag="web", time="202611231030", attributes={"a": "1"}
    )


@given(st.binary(min_size=1), st.sampled_from(["", "web"]), st.sampled_from(["", "202611231030"]))
def test_json_says_everything_of_a_message(body: bytes, tag: str, time: str) -> None:
    import base64

    parse = parser_of("json", "clicks", Defaults("phone", "202601010000", {"a": "1", "b": "1"}))
    line = {"base64": base64.b64encode(body).decode(), "tag": tag, "time": time, "attributes": {"b": "2"}, "offset": 28}
    assert parse(json.dumps(line).encode()) == OutgoingMessage.of(
        "clicks", body, tag=tag or "phone", time=time or "202601010000", attributes={"a": "1", "b": "2"}
    )


def test_the_texts_of_json_are_utf_8() -> None:
    parse = parser_of("json", "clicks", Defaults())
    assert parse('{"value": "Zoë"}'.encode()) == OutgoingMessage.of("clicks", "Zoë".encode())


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ('{"value":' + "[" * 200_000, "its JSON is nested too deep"),
        ("{}", "it needs value, a text, or base64"),
        ('{"value": "a", "base64": "YQ=="}', "one of them"),
        ('{"value": 1}', "value is not a text"),
        ('{"value": "\\ud800"}', "half a character"),
        ('{"base64": "YQ"}', "base64 is not Base64"),
        ('{"value": "a", "key": "b"}', "the unknown field key; there are attributes, base64, tag, time, value"),
        ('{"value": "a", "bad": "checksum"}', "a bad message is not sent again: checksum"),
        ('{"value": "a", "attributes": {"a": 1}}', "attributes is not an object of texts"),
        ('{"value": "a", "time": "yesterday"}', "yesterday"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parser_of("json", "clicks", Defaults())(line.encode())


def test_what_no_message_can_have_is_said_before_the_first() -> None:
    with pytest.raises(ConfigurationError, match="--format is 'xml'; write lines or json"):
        parser_of("xml", "clicks", Defaults())
    with pytest.raises(ConfigurationError, match="tag"):
        parser_of("lines", "clicks", Defaults(tag="a,b"))


def test_the_origin_of_a_record_is_passed_over() -> None:
    parse = parser_of("json", "clicks", Defaults())
    assert parse(b'{"value": "a", "inlong": {"groupId": "g"}}') == OutgoingMessage.of("clicks", b"a")
