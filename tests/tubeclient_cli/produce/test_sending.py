"""From lines to messages; and what counts as sent, whenever a run is interrupted."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient.producing.producer import Producer
from tubeclient_cli.produce.sending import Sending, parser_of


def test_a_line_is_a_message() -> None:
    made = parser_of("lines", "clicks", "web", {"a": "1"}, UTC)(b"{x} \xff")
    assert made == OutgoingMessage.of("clicks", b"{x} \xff", tag="web", time=made.time, attributes={"a": "1"})


@given(st.binary(min_size=1), st.sampled_from(["", "web"]), st.just("202611231030"))
def test_json_says_everything_of_a_message(body: bytes, tag: str, time: str) -> None:
    parse = parser_of("json", "clicks", "phone", {"a": "1", "b": "1"}, UTC)
    line: dict[str, Any] = {
        "base64": base64.b64encode(body).decode(),
        "tag": tag,
        "time": time,
        "attributes": {"b": "2"},
    }
    line |= {"offset": 28, "inlong": {"groupId": "g"}}  # where it was
    assert parse(json.dumps(line).encode()) == OutgoingMessage.of(
        "clicks", body, tag=tag or "phone", time=time, attributes={"a": "1", "b": "2"}
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "it is not JSON: .*; to send lines as they are, leave out --format json"),
        ("[]", "it is not a JSON object"),
        ('{"value":' + "[" * 200_000, "it is not JSON: maximum recursion"),
        ("{}", r"it needs either value \(text\) or base64; to send lines as they are, leave out --format json"),
        ('{"id": 7, "name": "Ada"}', "needs either value.*; to send lines as they are, leave out --format json"),
        ("7", "not a JSON object.*; to send lines as they are, leave out --format json"),
        ('{"value": 7, "unit": "mV"}', "unknown field unit;.*, to send lines as they are, leave out --format json"),
        ('{"value": "a", "base64": "YQ=="}', r"it needs either value \(text\) or base64"),
        ('{"value": 1}', "value is not text"),
        ('{"value": "\\ud800"}', "surrogates not allowed"),
        ('{"base64": "YQ"}', "Incorrect padding"),
        ('{"value": "a", "key": "b"}', "the unknown field key; use only attributes, base64, tag, time, value"),
        ('{"value": "a", "bad": "checksum"}', "bad messages cannot be sent again: checksum"),
        ('{"value": "a", "attributes": {"a": 1}}', "attributes is not an object with text values"),
        ('{"value": "a", "time": "yesterday"}', "yesterday"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(line: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parser_of("json", "clicks", "", {}, UTC)(line.encode())


def test_impossible_options() -> None:
    """A format or tag that no message can have is an error before the first message."""
    with pytest.raises(ConfigurationError, match="--format is 'xml'; write lines or json"):
        parser_of("xml", "clicks", "", {}, UTC)
    with pytest.raises(ConfigurationError, match="tag"):
        parser_of("lines", "clicks", "a,b", {}, UTC)


class Sender:
    """Acknowledges some messages, and is interrupted by Ctrl-C at the next."""

    def __init__(self, good: int) -> None:
        self._left = good
        self.payloads: list[bytes] = []

    def submit_each(self, messages: Sequence[OutgoingMessage]) -> list[Future[Any]]:
        if not self._left:
            raise KeyboardInterrupt
        self.payloads += [one.payload for one in messages]
        self._left -= 1
        answer: Future[Any] = Future()
        answer.set_result(None)
        return [answer]


def test_a_line_that_was_interrupted_does_not_count() -> None:
    found = Sending(cast(Producer, Sender(6)), parser_of("lines", "t", "", {}, UTC), pytest.fail)
    found.send_all([b"a\n"] * 100)
    assert (found.acknowledged, found.read, found.next_line, found.is_complete) == (6, 6, 7, False)
    assert found.summary().endswith("; stopped after line 6, continue from line 7")


def test_line_ends_and_byte_order_mark() -> None:
    """Messages contain neither line ends nor the input's byte order mark."""
    sender = Sender(3)
    sending = Sending(cast(Producer, sender), lambda line: OutgoingMessage.of("t", line), pytest.fail)
    sending.send_all([b"\xef\xbb\xbfa\r\n", b"\r\n", b"\xef\xbb\xbfb\r\r\n", b"c"])
    assert (sender.payloads, sending.read) == ([b"a", b"\xef\xbb\xbfb", b"c"], 4)
