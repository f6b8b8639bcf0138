from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypedDict, final

__version__: str
Origin = tuple[str | None, str | None, int | None]

@final
class Messages:
    @property
    def ids(self) -> list[int]: ...
    @property
    def payloads(self) -> list[bytes]: ...
    @property
    def flags(self) -> list[int]: ...
    @property
    def payload_bytes(self) -> int: ...
    def checked(self, first: int | None) -> tuple[Messages, list[tuple[int, int, int]]]: ...
    def __iter__(self) -> Iterator[Any]: ...

def take_messages(stream: bytes, start: int, end: int) -> tuple[bytes, Messages] | None: ...
def take_records(
    messages: Sequence[tuple[bytes, Mapping[str, str], int]],
    first: int,
    auto: bool,
    limits: tuple[int, int, int, int],
    time_ms: Callable[[str], int | None],
    plain: Callable[[int], Iterable[tuple[Origin, list[tuple[str, str]], list[bytes]]] | None],
) -> tuple[int, Columns, Columns]: ...
def encode_sends(
    envelope: tuple[bytes, bytes],
    around: tuple[bytes, bytes],
    sent_from: int,
    messages: list[tuple[str, bytes, int, str, str]],
    partitions: Sequence[int],
    serials: Sequence[int],
) -> bytes | None: ...
def take_frames(data: bytes) -> tuple[int, list[tuple[int, bytes]]]: ...
def take_sent(streams: Sequence[bytes]) -> list[tuple[int | None, int] | None]: ...

@final
class Sends:
    @property
    def groups(self) -> list[list[int]]: ...
    def stored(
        self, numbers: Sequence[int], ends: tuple[int, int, int], now_ms: int, require_auth: bool
    ) -> tuple[bytes, bytes, list[bytes]]: ...

def take_sends(frames: list[tuple[int, bytes]], start: int, most_bytes: int) -> Sends: ...

@final
class Columns:
    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]: ...

@final
class Texts:
    def __init__(self, time_us: Callable[[str], int | None]) -> None: ...
    def columns(self, packs: Sequence[Messages], with_attributes: bool) -> Columns | None: ...

Field = tuple[str, bool, str, tuple[int, ...], tuple["Field", ...]]
"""As tubeclient.records.spec.Column has them: name, whether it is NOT NULL, kind, size, parts. What lists and maps have
gets Arrow's names. One of the kind rescued, which is the last, gets the fields of json and kv that no other one has."""
Pattern = Sequence[str | tuple[str, int, int]]
"""Of times: literals, and fields (Java's letter) with their least and most digits."""

class Marks(TypedDict):
    """Of csv and kv; each is the number of a character of ASCII."""

    separator: int
    kv_separator: int
    quote: int | None
    escape: int | None
    null: str
    """Any text: a null beside the empty one."""

class Placeholder(TypedDict):
    """As tubeclient.records.unavailable.Unavailable has it."""

    text: str
    texts: list[str]
    items: list[str]
    bytes: int

class Rules(TypedDict):
    """Of changes: names of columns. The fields themselves are not NOT NULL then."""

    keys: list[str]
    required: list[str]
    placeholder: Placeholder
    schemas: Callable[[str], Mapping[str, tuple[str, int]] | None]
    """The logical types of a row's columns, by the text of an envelope's schema: "date" and 0, "moment" and the pieces
    in a second, "decimal" and its scale, or another word for what the core leaves alone."""

@final
class RecordReader:
    def __init__(
        self,
        kind: str,
        fields: Sequence[Field],
        patterns: Mapping[str, Pattern],
        offset_s: Callable[[int], int | None] | None,
        more: Marks | Rules,
    ) -> None:
        """`fields` of the schema; those of changes get `change` behind them. `patterns` by kind of column, where a kind
        has one. `offset_s` gives the offset from UTC in seconds for a slot of 15 minutes of local time (its seconds
        since 1970 // 900), None if it changes there; None instead of it is UTC. ValueError for what is not described
        here."""

    def decode(self, data: bytes, offsets: bytes) -> tuple[Columns, list[int]]:
        """One column, `records`, of the UTF-8 texts between the offsets (int32, little-endian, one more than texts);
        null where the index is in the list of those that the reference decides about, as about empty ones."""
