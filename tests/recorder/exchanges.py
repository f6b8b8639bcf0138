"""What was asked and answered, and the file that keeps it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from google.protobuf.message import Message

from tests.apache.server import TopicSpec
from tubeclient.wire.envelope import decode_request, decode_response, parse_message
from tubeclient.wire.methods import Method, method_of

__all__ = ["MASTER", "Exchange", "Recording", "broker_name", "fields_of"]

MASTER = "master"


_SHOWN_CHARACTERS: Final = 300


def broker_name(broker_id: int) -> str:
    """How recordings call a broker."""
    return f"broker {broker_id}"


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, as the streams of their frames. `at_ms` counts from the recording's start."""

    step: str
    at_ms: int
    server: str
    request_stream: bytes
    answer_stream: bytes

    @property
    def method(self) -> Method:
        """The call."""
        method_id = decode_request(self.request_stream).method_id
        method = method_of(method_id)
        assert method is not None, f"there is no call {method_id}"
        return method

    @property
    def request(self) -> Message:
        """What was asked."""
        return parse_message(self.method.spec.request, decode_request(self.request_stream).body)

    @property
    def answer(self) -> Message:
        """What was answered."""
        spec = self.method.spec
        return parse_message(spec.response, decode_response(self.answer_stream, spec.method_id))

    def row(self) -> dict[str, Any]:
        """A line of the file: the streams, and before them what they say, for people."""
        return {
            "step": self.step,
            "at_ms": self.at_ms,
            "server": self.server,
            "method": self.method.name,
            "request": _shortened(fields_of(self.request)),
            "answer": _shortened(fields_of(self.answer)),
            "request_stream": base64.b64encode(self.request_stream).decode(),
            "answer_stream": base64.b64encode(self.answer_stream).decode(),
        }

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Exchange:
        """From a line of the file; what the streams say is not read."""
        streams = (base64.b64decode(row[name]) for name in ("request_stream", "answer_stream"))
        return cls(row["step"], row["at_ms"], row["server"], *streams)


@dataclass(frozen=True)
class Recording:
    """Exchanges in the order of their requests, none asked before the one before it was answered."""

    started_ms: int
    topics: Sequence[TopicSpec]
    exchanges: Sequence[Exchange]

    def save(self, path: Path) -> None:
        """Write the file: a line about the whole, and one for each exchange."""
        topics = [
            {"name": one.name, "stores": one.num_stores, "partitions": one.num_partitions, **one.properties}
            for one in self.topics
        ]
        rows = [{"started_ms": self.started_ms, "topics": topics}, *(one.row() for one in self.exchanges)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read the file of `save`."""
        head, *rows = map(json.loads, path.read_text().splitlines())
        topics = [
            TopicSpec(
                row.pop("name"), num_stores=row.pop("stores"), num_partitions=row.pop("partitions"), properties=row
            )
            for row in head["topics"]
        ]
        return cls(head["started_ms"], topics, [Exchange.of_row(row) for row in rows])


def fields_of(message: Message) -> dict[str, Any]:
    """The fields that are set, by name; bytes as text of the first 256 characters."""
    return {field.name: _plain(value) for field, value in message.ListFields()}


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shortened(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_shortened, value))
    return f"{value[:40]}... of {len(value)}" if isinstance(value, str) and len(value) > _SHOWN_CHARACTERS else value


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return fields_of(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, (str, int)):
        return value
    return [_plain(one) for one in value]
