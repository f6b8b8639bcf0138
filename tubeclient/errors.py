"""The errors of the client, in one tree.

    TubeError
    ├── ConfigurationError        a wrong argument or option (also a ValueError)
    ├── TransportError            no usable connection; retriable
    │   ├── ConnectError
    │   ├── ConnectionLost
    │   └── DeadlineExceeded      (also a TimeoutError)
    ├── ProtocolError             bytes that are not TubeMQ's
    │   ├── CorruptMessage        a message that does not match its checksum
    │   └── ContradictoryAnswers  messages that do not match their offsets
    ├── RemoteError               the server could not run the call
    │   └── StandbyMaster         this master is a standby: ask the next one
    ├── StatusError               the server ran the call and answered a code other than 200
    │   └── one class per reaction of a caller; see `STATUS_CLASSES`
    ├── DataLoss                  a range that the broker no longer holds
    ├── StalePack                 a pack confirmed after its partition was moved, released or lost
    ├── ClientClosed              a client used after its close, or in a forked child
    ├── NoMessageTime             a message without a time, in a search by time
    ├── UnknownGroup              no broker has positions of the consumer group
    └── BrokerFailed              an administrative call failed at one broker

`retriable` says whether the same call may succeed later without any change by a user. `condition` is the error's stable
name; `tubeclient.conditions` lists them.

Apache's clients create some codes (TErrCodeConstants) themselves; no server sends them. They correspond to:

    402                 ConnectError or ConnectionLost: no connection
    405, 406, 407, 408  None from a consumer's `get`: its partitions are frozen, not there yet, waiting or
                        unconfirmed
    420                 ClientClosed
    421                 never: the client itself waits before it asks a partition again
    422, 423            PartitionUnavailable: not readable, or not writable, in the master's list
    440, 441, 442       ConfigurationError: no message, no topic, an empty body
    443, 445            ConfigurationError: a topic not published, a message over the topic's limit
    444                 PartitionUnavailable
"""

from __future__ import annotations

from typing import ClassVar


class TubeError(Exception):
    """Root of all errors of this package.

    Attributes:
        retriable: Whether the same call may succeed later without any change by a user.
    """

    condition: str = "CLIENT_ERROR"
    """The error's stable name, in `tubeclient.conditions`. Some errors have a finer one than their class."""
    retriable: ClassVar[bool] = False

    def __init__(self, *args: object, condition: str | None = None) -> None:
        super().__init__(*args)
        if condition is not None:
            self.condition = condition

    def __reduce__(self) -> tuple[object, ...]:
        # Spark's workers send errors as pickles. By default Python calls the class with only the message, but the
        # classes below take more arguments.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(kind: type[TubeError], args: tuple[object, ...], attributes: dict[str, object]) -> TubeError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class ConfigurationError(TubeError, ValueError):
    """A wrong argument or option. The message says which one, what is wrong with it and what to do."""

    condition = "INVALID_SETTING"


class TransportError(TubeError):
    """No usable connection to a server.

    Attributes:
        address: The server, as "host:port".
    """

    condition = "CONNECTION_FAILED"
    retriable = True

    def __init__(self, message: str, *, address: str = "", condition: str | None = None) -> None:
        super().__init__(message, condition=condition)
        self.address = address


class ConnectError(TransportError):
    """The connection could not be made."""

    condition = "SERVER_UNREACHABLE"


class ConnectionLost(TransportError):
    """The connection ended before the answer, or before the request."""

    condition = "CONNECTION_LOST"


class DeadlineExceeded(TransportError, TimeoutError):
    """No answer in time. The server may or may not have run the request."""

    condition = "NO_ANSWER_IN_TIME"


class ProtocolError(TubeError):
    """The peer sent bytes that are not a TubeMQ frame, envelope or message. The connection is closed."""

    condition = "NOT_TUBEMQ"
    retriable = True  # over a new connection


class CorruptMessage(ProtocolError):
    """A message whose payload does not match its checksum, or cannot be parsed.

    Attributes:
        number: The message's position in its pack, from 0; None if unknown.
    """

    condition = "CORRUPT_MESSAGE"

    def __init__(self, message: str, *, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class _OfPartition(TubeError):
    """`partition` is "brokerId:topic:partitionId"."""

    def __init__(self, message: str, *, partition: str) -> None:
        super().__init__(message)
        self.partition = partition


class ContradictoryAnswers(_OfPartition, ProtocolError):
    """A broker gave more messages than their offsets have room for, or others in each reading of the same offsets."""

    condition = "CONTRADICTORY_ANSWERS"
    retriable = False  # it was tried often enough


class RemoteError(TubeError):
    """The server answered ERROR or FATAL at the RPC level: it could not run the call.

    Attributes:
        exception_name: The server's Java class.
        text: Its message, which is often empty.
        address: The server, as "host:port"; "" if unknown.
    """

    condition = "SERVER_FAILED"

    def __init__(self, exception_name: str, text: str, *, address: str = "", condition: str | None = None) -> None:
        where = f" at {address}" if address else ""
        failure = exception_name.rpartition(".")[2]
        super().__init__(f"the server{where} failed with {failure}: {text or 'no text given'}", condition=condition)
        self.exception_name = exception_name
        self.text = text
        self.address = address


class StandbyMaster(RemoteError):
    """This master is a standby. Send the call to another master."""

    condition = "MASTER_STANDBY"
    retriable = True


class StatusError(TubeError):
    """The server answered a code other than 200.

    Attributes:
        code: The code (TErrCodeConstants).
        server_text: The server's text.
        context: What the call did.
        address: The server, as "host:port"; "" if unknown.
        partition: The partition that the call was about, as "brokerId:topic:partitionId"; "" if unknown.
        topic: The topic that the call was about; "" if unknown.

    Args:
        answered: False if no server said so. Then `server_text` is the client's own text, based on the master's list.
    """

    condition = "SERVER_REFUSED"
    advice: ClassVar[str] = ""

    def __init__(
        self,
        code: int,
        server_text: str,
        *,
        context: str = "",
        address: str = "",
        partition: str = "",
        topic: str = "",
        answered: bool = True,
    ) -> None:
        about = f"{context}: " if context else ""
        answer = f"the server answered {code} ({server_text.strip() or 'no text given'})" if answered else server_text
        super().__init__(f"{about}{answer}{f'. {self.advice}' if self.advice else ''}")
        self.code = code
        self.server_text = server_text
        self.context = context
        self.address = address
        self.partition = partition
        self.topic = topic or (partition.split(":")[1] if partition else "")


class BadRequest(StatusError):
    """400: the server rejects the call: a value is missing or invalid, or a message is over its limit."""

    condition = "BAD_REQUEST"


class NothingToRead(StatusError):
    """404: nothing to read right now."""

    condition = "NOTHING_TO_READ"
    retriable = True


class NotAvailable(StatusError):
    """403: the topic or the partition is missing, or closed, on that broker."""

    condition = "NOT_AVAILABLE"
    advice = "The topic or partition is missing or closed on this broker"


class PartitionUnavailable(NotAvailable):
    """422, 423: in the master's list the partition, or the whole topic, is not readable or not writable now.

    The client detects this itself: `server_text` is the client's text; no server was asked for this partition.
    """

    condition = "PARTITION_UNAVAILABLE"
    advice = (
        "Allow it for the topic on its brokers, or bring the brokers online; the master's list updates within a minute"
    )

    def __init__(
        self, message: str, *, code: int = 422, context: str = "", partition: str = "", topic: str = ""
    ) -> None:
        super().__init__(code, message, context=context, partition=partition, topic=topic, answered=False)


class PartitionOccupied(StatusError):
    """410: another client of the group owns the partition."""

    condition = "PARTITION_OCCUPIED"
    retriable = True
    advice = (
        "Another client of the group is reading this partition, and frees it when it releases the partition or dies"
    )


class RegistrationLost(StatusError):
    """401, 411: the server does not know this client (any more); the client must register again.

    A broker answers 401 to a commit if the partition is free or another client has it (BrokerServiceServer); the next
    registration shows which.
    """

    condition = "REGISTRATION_LOST"
    retriable = True


class PartitionTaken(StatusError):
    """412: the partition was given to another client without this one noticing."""

    condition = "PARTITION_TAKEN"


class AuthenticationFailed(StatusError):
    """415: the server rejected the user, password or visit token."""

    condition = "AUTHENTICATION_FAILED"
    advice = "Check the user, the password, and this machine's clock; readers may need a visit token"


class GroupConflict(StatusError):
    """424 to 428: live clients of the group use a different mode, topics, filters or sessionKey."""

    condition = "GROUP_CONFLICT"
    advice = (
        "All live clients of a group, including this query's other sources, must agree; stop them, or use another group"
    )


class SourceCountConflict(StatusError):
    """429: live clients of the group use a different sourceCount."""

    condition = "SOURCE_COUNT_CONFLICT"
    advice = "Live clients of this group use a different sourceCount; use the same one, or another group"


class NodeIdConflict(StatusError):
    """430: a live client of the group already has this nodeId."""

    condition = "NODE_OCCUPIED"
    advice = (
        "Another live client holds this node of the group, for example a second query or job; stop it, or use another"
        " group"
    )


class TopicNotDeployed(StatusError):
    """431: the master does not know the topic. A producer sees that in the master's list of topics."""

    condition = "TOPIC_NOT_FOUND"
    advice = "Check the topic's spelling, or create and deploy it on the cluster first"


class GroupForbidden(StatusError):
    """450, 455: the cluster does not allow this group to consume this topic, or allows it only with other filters."""

    condition = "GROUP_FORBIDDEN"
    advice = "Authorize the group for the topic on the master, or use an authorized group"


class SpeedLimited(StatusError):
    """452: the broker's flow control asks the client to wait."""

    condition = "SPEED_LIMITED"
    retriable = True


class ServerBusy(StatusError):
    """201, 301, 419, 500, 503, 510, 599: the server is busy; try later, or another server."""

    condition = "SERVER_BUSY"
    retriable = True


class NoSuchPartition(StatusError):
    """500 with the brokers' text for a partition that the topic does not have in that store."""

    condition = "PARTITION_NOT_FOUND"
    advice = "The topic has fewer partitions per store on this broker; use an existing one"


class UnknownGroup(TubeError):
    """No broker has positions of the consumer group. New positions show up to 5 s late."""

    condition = "GROUP_NOT_FOUND"


class BrokerFailed(TubeError):
    """An administrative call failed at one broker. The `__cause__` is the broker's own error.

    What the call changed at other brokers stays. Repeating it is safe.

    Attributes:
        broker: The broker, as "id:host:port".
    """

    condition = "BROKER_CALL_FAILED"

    def __init__(self, message: str, *, broker: str) -> None:
        super().__init__(message)
        self.broker = broker


class DataLoss(_OfPartition):
    """Messages of a range that the broker no longer holds.

    They have expired, were never flushed before a crash, or were in a topic that was created again.

    Attributes:
        partition: The partition, as "brokerId:topic:partitionId".
        wanted: The index offset to read from.
        found: The index offset that the broker has instead; None if the partition itself is gone.
    """

    condition = "DATA_LOSS"

    def __init__(self, message: str, *, partition: str, wanted: int, found: int | None) -> None:
        super().__init__(message, partition=partition)
        self.wanted = wanted
        self.found = found


class StalePack(_OfPartition):
    """A pack was confirmed too late, or a second time."""

    condition = "STALE_PACK"

    def __init__(self, *, partition: str) -> None:
        super().__init__(
            f"the pack of partition {partition} can no longer be confirmed: it already was, or confirm_timeout_ms "
            "ran out, or its partition was released, moved or lost; unconfirmed messages are delivered again",
            partition=partition,
        )


class NoMessageTime(_OfPartition):
    """A message without a time of the form yyyyMMddHHmm, in a search by time."""

    condition = "NO_MESSAGE_TIME"


class ClientClosed(TubeError):
    """The client is closed, or belongs to the parent process of this fork. Make a new one."""

    condition = "CLIENT_CLOSED"


_NO_SUCH_PARTITION = "Wrong partition value"
"""MessageStoreManager.getOrCreateMessageStore: the only permanent 500."""

STATUS_CLASSES: dict[int, type[StatusError]] = {
    code: kind
    for kind, codes in (
        (ServerBusy, (201, 301, 419, 500, 503, 510, 599)),
        (BadRequest, (400,)),
        (RegistrationLost, (401, 411)),
        (NotAvailable, (403,)),
        (NothingToRead, (404,)),
        (PartitionOccupied, (410,)),
        (PartitionTaken, (412,)),
        (AuthenticationFailed, (415,)),
        (GroupConflict, (424, 425, 426, 427, 428)),
        (SourceCountConflict, (429,)),
        (NodeIdConflict, (430,)),
        (TopicNotDeployed, (431,)),
        (GroupForbidden, (450, 455)),
        (SpeedLimited, (452,)),
    )
    for code in codes
}
"""Every code that Apache's servers send."""


def status_error(
    code: int, server_text: str, *, context: str = "", address: str = "", partition: str = "", topic: str = ""
) -> StatusError:
    """Return the error of the class for `code`; `context` describes the call in the message."""
    kind = STATUS_CLASSES.get(code, StatusError)
    if kind is ServerBusy and _NO_SUCH_PARTITION in server_text:
        kind = NoSuchPartition
    return kind(code, server_text, context=context, address=address, partition=partition, topic=topic)
