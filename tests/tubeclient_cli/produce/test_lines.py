"""From lines to messages."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient_cli.produce.lines import Defaults, parser_of


def test_a_line_is_a_message() -> None:
    made = parser_of("lines", "clicks", Defaults("web", {"a": "1"}))(b"{x} \xff")
    assert made == OutgoingMessage.of("clicks", b"{x} \xff", tag="web", time=made.time, attributes={"a": "1"})


@given(st.binary(min_size=1), st.sampled_from(["", "web"]), st.just("202611231030"))
def test_json_says_everything_of_a_message(body: bytes, tag: str, time: str) -> None:
    import base64

    parse = parser_of("json", "clicks", Defaults("phone", {"a": "1", "b": "1"}))
    line = {"base64": base64.b64encode(body).decode(), "tag": tag, "time": time, "attributes": {"b": "2"}, "offset": 28}
    assert parse(json.dumps(line).encode()) == OutgoingMessage.of(
        "clicks", body, tag=tag or "phone", time=time, attributes={"a": "1", "b": "2"}
    )


def test_the_texts_of_json_are_utf_8() -> None:
    parse = parser_of("json", "clicks", Defaults())
    made = parse('{"value": "Zoë"}'.encode())
    assert made == OutgoingMessage.of("clicks", "Zoë".encode(), time=made.time)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "it is not JSON: .*; to send lines as they are, leave out --format json"),
        ("[]", "it is not a JSON object"),
        ('{"value":' + "[" * 200_000, "it is not JSON: maximum recursion"),
        ("{}", "it has neither value, a text, nor base64; to send lines as they are, leave out --format json"),
        ('{"id": 7, "name": "Ada"}', "neither value.*; to send lines as they are, leave out --format json"),
        ("7", "not a JSON object.*; to send lines as they are, leave out --format json"),
        ('{"value": 7, "unit": "mV"}', "unknown field unit;.*, to send lines as they are, leave out --format json"),
        ('{"value": "a", "base64": "YQ=="}', "it has both value and base64; leave out one of them"),
        ('{"value": 1}', "value is not a text"),
        ('{"value": "\\ud800"}', "surrogates not allowed"),
        ('{"base64": "YQ"}', "Incorrect padding"),
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


def test_where_a_message_was_is_passed_over() -> None:
    parse = parser_of("json", "clicks", Defaults())
    made = parse(b'{"value": "a", "packStart": 0, "packEnd": 28, "inlong": {"groupId": "g"}}')
    assert made == OutgoingMessage.of("clicks", b"a", time=made.time)
