"""Everything that can go wrong, in one tree.

    TubeError
    ├── ConfigurationError        a wrong argument or option (also a ValueError)
    ├── TransportError            no usable connection; retriable
    │   ├── ConnectError
    │   ├── ConnectionLost
    │   └── DeadlineExceeded      (also a TimeoutError)
    ├── ProtocolError             bytes that are not TubeMQ's
    │   └── CorruptMessage        a message whose checksum does not match
    ├── RemoteError               the server could not run the call at all
    │   └── StandbyMaster         this master is a standby: ask the next one
    ├── StatusError               the server ran the call and answered a code other than 200
    │   └── one class per thing that callers do about it; see `STATUS_CLASSES`
    ├── DataLoss                  a range that the broker no longer holds
    ├── StalePack                 a pack confirmed after its partition went elsewhere
    ├── ClientClosed              a client used after its close, or in a forked child
    ├── NoMessageTime             a message without a time, where offsets are sought by time
    ├── UnknownGroup              no broker keeps positions of the consumer group
    └── BrokerFailed              an administrative call failed at one broker; says what was done before

`retriable` says whether the same call may succeed later without anybody changing anything.

Apache's clients give some codes (TErrCodeConstants) to themselves; no server sends them. Here they are:

    402                 ConnectError or ConnectionLost: no connection
    405, 406, 407, 408  None where a consumer asks for the next pack: its partitions are frozen, not there yet,
                        waiting or unconfirmed
    420                 ClientClosed
    421                 never: the wait before a partition may be asked for again is inside the client
    422, 423            PartitionUnavailable: not to be read, or not to be written, as the master lists it
    440, 441, 442       ConfigurationError: no message, no topic, an empty body
    443, 445            ConfigurationError: a topic not published, a message over the topic's limit
    444                 PartitionUnavailable
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "STATUS_CLASSES",
    "AuthenticationFailed",
    "BadRequest",
    "BrokerFailed",
    "ClientClosed",
    "ConfigurationError",
    "ConnectError",
    "ConnectionLost",
    "CorruptMessage",
    "DataLoss",
    "DeadlineExceeded",
    "GroupConflict",
    "GroupForbidden",
    "NoMessageTime",
    "NoSuchPartition",
    "NodeIdConflict",
    "NotAvailable",
    "NothingToRead",
    "PartitionOccupied",
    "PartitionTaken",
    "PartitionUnavailable",
    "ProtocolError",
    "RegistrationLost",
    "RemoteError",
    "ServerBusy",
    "SourceCountConflict",
    "SpeedLimited",
    "StalePack",
    "StandbyMaster",
    "StatusError",
    "TopicNotDeployed",
    "TransportError",
    "TubeError",
    "UnknownGroup",
    "status_error",
]


class TubeError(Exception):
    """Root of all errors of this package."""

    retriable: ClassVar[bool] = False
    lasting = False
    """Of a retriable one: no waiting will mend it, as with a host name that nobody knows, a certificate that is
    refused or a port of another protocol. It is tried for some seconds only, in case it was a hiccup after all.
    """

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark's workers as pickles. Python's own way calls the class with the message alone, which
        # the classes below with further arguments do not take.
        return _rebuild, (type(self), self.args, dict(self.__dict__))


def _rebuild(kind: type[TubeError], args: tuple[object, ...], attributes: dict[str, object]) -> TubeError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class ConfigurationError(TubeError, ValueError):
    """A wrong argument or option; the message says which one, what is wrong with it and what to do."""


class TransportError(TubeError):
    """No usable connection to `address` ("host:port")."""

    retriable = True

    def __init__(self, message: str, *, address: str = "", lasting: bool = False) -> None:
        super().__init__(message)
        self.address = address
        self.lasting = lasting


class ConnectError(TransportError):
    """The connection could not be made."""


class ConnectionLost(TransportError):
    """The connection ended while an answer was awaited, or before."""


class DeadlineExceeded(TransportError, TimeoutError):
    """No answer in time. The request may or may not have been carried out."""


class ProtocolError(TubeError):
    """The peer sent bytes that are not a TubeMQ frame, envelope or message. The connection is given up."""

    retriable = True  # over a new connection


class CorruptMessage(ProtocolError):
    """A message whose payload does not match its checksum, or cannot be taken apart.

    `number` is its place among those that it came with, from 0; None where it is not known.
    """

    def __init__(self, message: str, *, number: int | None = None) -> None:
        super().__init__(message)
        self.number = number


class RemoteError(TubeError):
    """The server answered ERROR or FATAL on the RPC level: it could not run the call.

    `exception_name` is the Java class the server names, `text` what it adds (often empty).
    """

    def __init__(self, exception_name: str, text: str, *, address: str = "") -> None:
        where = f" at {address}" if address else ""
        failure = exception_name.rpartition(".")[2]
        super().__init__(f"the server{where} failed with {failure}: {text or 'no text given'}")
        self.exception_name = exception_name
        self.text = text
        self.address = address


class StandbyMaster(RemoteError):
    """This master is a standby; the call belongs to another one of the list."""

    retriable = True


class StatusError(TubeError):
    """The server answered `code` (TErrCodeConstants) with the text `server_text` to what `context` describes.

    Where known, else "": `address` ("host:port") is the server, `partition` ("brokerId:topic:partitionId") and
    `topic` are what the call was about. With `answered` false no server said so: `server_text` is the client's own
    finding, by what the master lists.
    """

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
        said = f"the server answered {code} ({server_text.strip() or 'no text given'})" if answered else server_text
        super().__init__(f"{about}{said}{f'. {self.advice}' if self.advice else ''}")
        self.code = code
        self.server_text = server_text
        self.context = context
        self.address = address
        self.partition = partition
        self.topic = topic or (partition.split(":")[1] if partition else "")


class BadRequest(StatusError):
    """400: the server takes the call for a mistake: a missing or impossible value, a message over its limit."""


class NothingToRead(StatusError):
    """404: nothing there at this moment."""

    retriable = True


class NotAvailable(StatusError):
    """403: the topic or the partition is missing, or closed, on that broker."""

    advice = "The topic or partition is missing or closed on this broker"


class PartitionUnavailable(NotAvailable):
    """422, 423: the master lists the partition, or the whole topic, as not to be read or not to be written now.

    The client's own finding: `server_text` is the client's text, and no server was asked for this partition.
    """

    advice = "Let the topic accept it on its brokers, or bring them online; the master's list follows within a minute"

    def __init__(
        self,
        message: str,
        *,
        code: int = 422,
        context: str = "",
        partition: str = "",
        topic: str = "",
    ) -> None:
        super().__init__(code, message, context=context, partition=partition, topic=topic, answered=False)


class PartitionOccupied(StatusError):
    """410: another client of the group owns the partition."""

    retriable = True
    advice = "Another client of the group reads this partition; it is free again when that client releases it or dies"


class RegistrationLost(StatusError):
    """401, 411: the server does not know this client (any more); it has to register again.

    A broker says 401 to a commit, whether the partition is free or somebody else's (BrokerServiceServer); the
    registration that follows finds out which.
    """

    retriable = True


class PartitionTaken(StatusError):
    """412: the partition went to another client while this one thought it had it."""


class AuthenticationFailed(StatusError):
    """415: user, password or visit token were not accepted."""

    advice = (
        "Check the user and the password, and that this machine's clock is right; where brokers check visit tokens, "
        "readers have to be given the master's"
    )


class GroupConflict(StatusError):
    """424 to 428: live clients of the group consume in another mode, other topics, with other filters or another
    sessionKey.
    """

    advice = "All live clients of a group must agree; stop the others or take another consumerGroup"


class SourceCountConflict(StatusError):
    """429: live clients of the group have another sourceCount."""

    advice = (
        "Live clients of this group were started with another sourceCount; "
        "use the same sourceCount, stop them, or take another consumerGroup"
    )


class NodeIdConflict(StatusError):
    """430: a live client of the group has this nodeId."""

    advice = (
        "Another live client holds this node of the group, for example a second query on the same group, or another "
        "source of this query; stop it or take another consumerGroup"
    )


class TopicNotDeployed(StatusError):
    """431: the master does not know the topic. A producer finds that out by the master's list of topics."""

    advice = "Check the topic's spelling, or create and deploy it on the cluster first"


class GroupForbidden(StatusError):
    """450, 455: the cluster does not let this group consume this topic, or not with these filters."""

    advice = "Authorise the group for the topic on the master, or take an authorised group"


class SpeedLimited(StatusError):
    """452: the broker's flow control asks to wait."""

    retriable = True


class ServerBusy(StatusError):
    """201, 301, 419, 500, 503, 510, 599: not now; later, or elsewhere."""

    retriable = True


class NoSuchPartition(StatusError):
    """500 with the text that brokers give for a partition that the topic does not have in that store."""

    advice = "The topic has fewer partitions a store than that on this broker; name one that it has"


class UnknownGroup(TubeError):
    """No broker keeps positions of the consumer group. A broker tells new ones up to 5 s late."""


class BrokerFailed(TubeError):
    """An administrative call failed at one broker, whose own error is the `__cause__`.

    `broker` is "id:host:port". `done` names the partitions ("brokerId:topic:partitionId") that the same call had
    changed by then, on this broker or on others: that is not undone. Calling again is safe.
    """

    def __init__(self, message: str, *, broker: str, done: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.broker = broker
        self.done = done


class DataLoss(TubeError):
    """Messages of a range that the broker no longer holds: expired, never flushed before a crash, or recreated.

    `partition` names the partition ("brokerId:topic:partitionId"); `wanted` and `found` are index offsets,
    `found` None where the partition itself is gone.
    """

    def __init__(self, message: str, *, partition: str, wanted: int, found: int | None) -> None:
        super().__init__(message)
        self.partition = partition
        self.wanted = wanted
        self.found = found


class StalePack(TubeError):
    """A pack was confirmed too late to count. `partition` is "brokerId:topic:partitionId"."""

    def __init__(self, *, partition: str) -> None:
        super().__init__(
            f"the pack's partition {partition} was released, moved or lost since; "
            "its messages come again to whoever reads it next"
        )
        self.partition = partition


class NoMessageTime(TubeError):
    """A message without a time, or with one that is not yyyyMMddHHmm, where offsets are sought by time.

    `partition` is "brokerId:topic:partitionId".
    """

    def __init__(self, message: str, *, partition: str) -> None:
        super().__init__(message)
        self.partition = partition


class ClientClosed(TubeError):
    """The client was closed, or belongs to the process that this one was forked from; make a new one."""


_NO_SUCH_PARTITION = "Wrong partition value"
"""MessageStoreManager.getOrCreateMessageStore: the one 500 that does not pass."""

STATUS_CLASSES: dict[int, type[StatusError]] = {  # every code that a server of Apache's can send
    201: ServerBusy,
    301: ServerBusy,
    400: BadRequest,
    401: RegistrationLost,
    403: NotAvailable,
    404: NothingToRead,
    410: PartitionOccupied,
    411: RegistrationLost,
    412: PartitionTaken,
    415: AuthenticationFailed,
    419: ServerBusy,
    424: GroupConflict,
    425: GroupConflict,
    426: GroupConflict,
    427: GroupConflict,
    428: GroupConflict,
    429: SourceCountConflict,
    430: NodeIdConflict,
    431: TopicNotDeployed,
    450: GroupForbidden,
    452: SpeedLimited,
    455: GroupForbidden,
    500: ServerBusy,
    503: ServerBusy,
    510: ServerBusy,
    599: ServerBusy,
}


def status_error(
    code: int, server_text: str, *, context: str = "", address: str = "", partition: str = "", topic: str = ""
) -> StatusError:
    """Return the error of the class that stands for `code`; `context` says who wanted what, for the message."""
    kind = STATUS_CLASSES.get(code, StatusError)
    if kind is ServerBusy and _NO_SUCH_PARTITION in server_text:
        kind = NoSuchPartition
    return kind(code, server_text, context=context, address=address, partition=partition, topic=topic)
