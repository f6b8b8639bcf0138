"""Why a server does not do as it was asked: refusals with their codes, the checks that master and broker share, and
faults that tests inject while it runs."""

from __future__ import annotations

import hmac
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from google.protobuf.message import Message

from tubeclient.errors import ProtocolError
from tubeclient.wire.methods import Method
from tubeclient.wire.signature import Signed, parse_joined, sign

_MAX_SKEW_MS = 20_000


class Code(IntEnum):
    """The values of errCode (source: TErrCodeConstants of Apache TubeMQ)."""

    SUCCESS = 200
    BAD_REQUEST = 400
    UNAUTHORIZED = 401
    FORBIDDEN = 403
    NOT_FOUND = 404
    PARTITION_OCCUPIED = 410
    HB_NO_NODE = 411
    DUPLICATE_PARTITION = 412
    CERTIFICATE_FAILURE = 415
    TOPIC_SET_CONFLICT = 425
    FILTER_SET_CONFLICT = 426
    SOURCE_COUNT_CONFLICT = 429
    NODE_ID_CONFLICT = 430
    TOPIC_NOT_DEPLOYED = 431
    GROUP_FORBIDDEN = 450
    INTERNAL_SERVER_ERROR = 500
    SERVICE_UNAVAILABLE = 503


class Refusal(Exception):
    """The call is refused with `code`; the answer has `text`. `wait_ms` is the minLimitTime that goes with 452."""

    def __init__(self, code: int, text: str, *, wait_ms: int = 0) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text
        self.wait_ms = wait_ms


class StandbyRefusal(Exception):
    """This master is a standby: the RPC layer answers with StandbyException instead of a code."""


def refused(method: Method, refusal: Refusal) -> Message:
    """The answer to a call that is refused, with what its kind of answer requires."""
    fields = {"errCode": int(refusal.code), "errMsg": refusal.text, "success": False}
    fields |= {"brokerCheckSum": -1, "currOffset": -1}
    if method is Method.GET_MESSAGES:
        fields |= {"minLimitTime": refusal.wait_ms, "escFlowCtrl": False, "currDataDlt": -1}
    known = method.spec.response.DESCRIPTOR.fields_by_name
    return method.spec.response(**{name: value for name, value in fields.items() if name in known})


def checked_name(name: str, what: str) -> str:
    """Return `name` without surrounding blanks. A blank name is a 400."""
    if not (name := name.strip()):
        raise Refusal(Code.BAD_REQUEST, f"the request names no {what}")
    return name


class Authenticator:
    """Knows the users and their passwords. Without users every client may do everything (TubeMQ's default)."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)

    @property
    def enabled(self) -> bool:
        return bool(self._users)

    def check(self, given: Signed, now_ms: int) -> None:
        """Check a credential. A wrong one, or one signed more than 20 s from now, is a 415."""
        password = self._users.get(given.user)
        expected = sign(given.user, password or "", given.timestamp_ms, given.nonce).signature
        if password is None or not hmac.compare_digest(expected.encode(), given.signature.encode()):
            raise Refusal(Code.CERTIFICATE_FAILURE, "unknown user, or the signature does not match the password")
        if abs(now_ms - given.timestamp_ms) > _MAX_SKEW_MS:
            raise Refusal(
                Code.CERTIFICATE_FAILURE, f"the credential's time is more than {_MAX_SKEW_MS} ms from the server's"
            )

    def check_joined(self, text: str, now_ms: int) -> None:
        """Check "user timestamp nonce signature", the form brokers get."""
        try:
            given = parse_joined(text)
        except ProtocolError as error:
            raise Refusal(Code.CERTIFICATE_FAILURE, str(error)) from error
        self.check(given, now_ms)


class ConnectionFault(Enum):
    """What happens to the connection at an armed call."""

    DROP_BEFORE = "drop the connection, do not run the call"
    DROP_AFTER = "run the call, drop the connection instead of answering"
    FALL_SILENT = "run the call, keep the connection open, and answer nothing more on it"
    CORRUPT_FRAME = "answer with a frame that has a wrong begin token"


@dataclass(slots=True)
class Faults:
    """The switches of one server, the master or a broker.

    Plain attributes hold until they change. Methods arm a fault for the next calls of one method. Tests change them
    from their own thread: every change is one assignment or one append.
    """

    standby: bool = False
    """The master answers every call with StandbyException."""

    half_packs: bool = False
    """A fetch reads only the first half of the entries it looked up, so pack borders depend on the available data
    (TubeMQ's file reads)."""

    advancing_404: bool = False
    """A fetch that finds no message of its partition up to the end answers 404 and moves the position (TubeMQ's memory
    reads)."""

    answer_delay_ms: int = 0
    """Every answer waits this long; other connections do not wait."""

    stop_writing: bool = False
    """The broker answers 503 to producers."""

    corrupt_checksums: int = 0
    """How many further packs get a wrong checksum in their first message."""

    _forced: dict[Method, deque[Refusal]] = field(default_factory=dict)
    _connection: dict[Method, deque[ConnectionFault | None]] = field(default_factory=dict)

    def force(self, method: Method, code: int, *, times: int = 1, wait_ms: int = 0) -> None:
        """Answer the next `times` calls of `method` with `code`, without running them."""
        refusals = [Refusal(code, "forced by a fault", wait_ms=wait_ms) for _ in range(times)]
        self._forced.setdefault(method, deque()).extend(refusals)

    def break_connection(
        self, method: Method, fault: ConnectionFault = ConnectionFault.DROP_BEFORE, *, nth: int = 1
    ) -> None:
        """Apply `fault` at the `nth` call of `method` from now on (1 = the next one)."""
        queue = self._connection.setdefault(method, deque())
        queue.extend([None] * (nth - 1 - len(queue)))
        queue.append(fault)

    def touch_sends(self) -> bool:
        """Return whether a fault waits for the next message, or for its answer. For the brokers."""
        armed = self._forced.get(Method.SEND_MESSAGE) or self._connection.get(Method.SEND_MESSAGE)
        return bool(armed or self.stop_writing or self.answer_delay_ms)

    def refuse_if_forced(self, method: Method) -> None:
        """Raise the refusal that is armed for this call, if any. For the servers."""
        if queue := self._forced.get(method):
            raise queue.popleft()

    def take_connection_fault(self, method: Method) -> ConnectionFault | None:
        """Return the connection fault that is armed for this call, if any. For the servers."""
        queue = self._connection.get(method)
        return queue.popleft() if queue else None
