"""From lines to messages, sent and counted as the brokers acknowledge them."""

from __future__ import annotations

import base64
import binascii
import codecs
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.printable import counted
from tubeclient.producing.outgoing import OutgoingMessage
from tubeclient_cli.common.terminal import ExitCode, exit_code

if TYPE_CHECKING:
    from datetime import tzinfo

    from tubeclient.producing.producer import Producer, SendResult

Parse = Callable[[bytes], OutgoingMessage]
"""A line without its end to a message. ConfigurationError says what is wrong with it."""

_FIELDS: Final = frozenset({"value", "base64", "tag", "attributes", "time"})
# What `tubeclient consume --json` tells besides; a message gets these anew.
_OF_READERS: Final = frozenset({"partition", "offset", "packStart", "packEnd", "messageId", "inlong"})
_AS_THEY_ARE: Final = "to send lines as they are, leave out --format json"
_AT_ONCE: Final = 1_000


def parser_of(form: str, topic: str, tag: str, attributes: Mapping[str, str], zone: tzinfo) -> Parse:
    """The parser of a --format. Messages have this tag and these attributes unless their line says otherwise, and the
    present time in `zone`. ConfigurationError for another form, and for a tag or attributes that no message can
    have."""
    OutgoingMessage.of(topic, b"x", tag=tag, attributes=attributes)
    if form == "lines":
        return lambda line: OutgoingMessage.of(topic, line, tag=tag, time=datetime.now(zone), attributes=attributes)
    if form != "json":
        raise ConfigurationError(f"--format is {form!r}; write lines or json")

    def parse(line: bytes) -> OutgoingMessage:
        found = _fields(line)
        return OutgoingMessage.of(
            topic,
            _body(found),
            tag=_text(found, "tag") or tag,
            time=_text(found, "time") or datetime.now(zone),
            attributes={**attributes, **found.get("attributes", {})},
        )

    return parse


def _fields(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"it is not JSON: {error}; {_AS_THEY_ARE}") from None
    if not isinstance(found, dict):
        raise ConfigurationError(f'it is not a JSON object such as {{"value": "hello"}}; {_AS_THEY_ARE}')
    if "bad" in found:
        raise ConfigurationError(f"bad messages cannot be sent again: {found['bad']}")
    if len(found.keys() & {"value", "base64"}) != 1:
        raise ConfigurationError(f"it needs either value (text) or base64; {_AS_THEY_ARE}")
    if strange := sorted(found.keys() - _FIELDS - _OF_READERS):
        raise ConfigurationError(
            f"it has the unknown field {strange[0]}; use only {', '.join(sorted(_FIELDS))}. Or, {_AS_THEY_ARE}"
        )
    attributes = found.get("attributes", {})
    if not isinstance(attributes, dict) or not all(isinstance(value, str) for value in attributes.values()):
        raise ConfigurationError("attributes is not an object with text values")
    return found


def _body(found: Mapping[str, Any]) -> bytes:
    try:
        if "value" in found:
            return _text(found, "value").encode()
        return base64.b64decode(_text(found, "base64"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as error:
        raise ConfigurationError(f"its value is invalid: {error}") from None


def _text(found: Mapping[str, Any], name: str) -> str:
    value = found.get(name, "")
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} is not text")
    return value


class Sending:
    """One run over the lines of a stream; `tell` gets a text for each line that failed."""

    def __init__(self, producer: Producer, parse: Parse, report: Callable[[str], None]) -> None:
        self._producer = producer
        self._parse = parse
        self._report = report
        self._open: deque[tuple[int, Future[SendResult]]] = deque()
        self._unreached: list[int] = []
        """The lines whose messages no broker took in time."""
        self.read = 0
        """Lines that were sent, told or skipped as empty."""
        self.acknowledged = 0
        self.failed = 0
        self.is_complete = False
        """Whether the input was read to its end, and the cluster could be reached."""
        self.stopped_by: TubeError | None = None
        """Why the rest was not sent: the cluster cannot be reached."""

    def send_all(self, lines: Iterable[bytes]) -> None:
        """Send each line, and wait for all answers. Ctrl-C and a stream that cannot be read end the reading; what was
        read is sent."""
        ended = False
        try:
            for line in lines:
                mark = codecs.BOM_UTF8 if self.read == 0 else b""
                self._send(line.removeprefix(mark).rstrip(b"\r\n"))
                self._settle(_AT_ONCE)
                if self.stopped_by is not None:
                    break
            else:
                ended = True
        except KeyboardInterrupt:
            pass
        except OSError as error:
            self._report(f"the input cannot be read after line {self.read:,}: {error.strerror or error}")
        self._settle(0)
        self.is_complete = ended and self.stopped_by is None

    @property
    def next_line(self) -> int:
        """The line from which a further run goes on. Of the lines before it all were acknowledged, refused or empty."""
        return min([*self._unreached, *(number for number, _ in self._open), self.read + 1])

    def summary(self) -> str:
        """The last line of a run."""
        text = f"{counted(self.acknowledged, 'message')} acknowledged"
        if self.failed:
            text += f"; {self.failed:,} failed"
        if not self.is_complete:
            text += f"; stopped after line {self.read:,}, continue from line {self.next_line:,}"
        return text

    def _send(self, line: bytes) -> None:
        """Send a line, unless it is empty; it counts as read once that is done."""
        number = self.read + 1
        try:
            if line:
                # If this is interrupted, the message may be there or not. Its line does not count, and comes again.
                [answer] = self._producer.submit_each([self._parse(line)])
                self._open.append((number, answer))
        except TubeError as error:
            self._failed(number, error)
        self.read = number

    def _settle(self, at_most: int) -> None:
        """Take answers, in order, until at most so many messages are open. Every message has its own time limit."""
        while self._open and (len(self._open) > at_most or self._open[0][1].done()):
            number, answer = self._open[0]
            error = answer.exception()
            self._open.popleft()  # not before: the wait may be interrupted
            if error is None:
                self.acknowledged += 1
            elif isinstance(error, TubeError):
                self._failed(number, error)
            else:
                raise error

    def _failed(self, number: int, error: TubeError) -> None:
        self.failed += 1
        self._report(f"line {number:,}: {error_text(error)}")
        if exit_code(error) is ExitCode.UNREACHABLE:
            self.stopped_by = error
            self._unreached.append(number)
