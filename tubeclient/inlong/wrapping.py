"""How a message wraps its records: by the attributes that DataProxy gave it, else by its magic.

DataProxy names the wrapping in `version` and in `msgEnType`, and how protobuf packs are compressed in `compressType`,
by name (`DefaultEventHandler.parseHeader`), where its sort SDK expects the number; both are read here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, Literal

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.attributes import MESSAGE_GROUP_ID
from tubeclient.inlong.packs import version_of

__all__ = ["COMPRESSION", "COMPRESSIONS", "ENCODING", "VERSION", "Payload", "Wrapping", "compression_of", "wrapping_of"]

Payload = Literal["inlong", "auto"]
"""What messages are said to be: all of them InLong's, or each as it shows itself."""

VERSION: Final = "version"
ENCODING: Final = "msgEnType"
COMPRESSION: Final = "compressType"


class Wrapping(Enum):
    """The values are InLong's numbers (MessageWrapType)."""

    RAW = "0"
    """The body is one record."""
    MESSAGE_OBJS = "1"
    """The body is a protobuf list of records."""
    PACK = "2"
    """The body is an InLongMsg."""


COMPRESSIONS: Final = {
    "0": "none",
    "NONE": "none",
    "1": "gzip",
    "INLONG_GZ": "gzip",
    "2": "snappy",
    "INLONG_SNAPPY": "snappy",
}


def wrapping_of(message: Mapping[str, str], body: bytes, payload: Payload) -> Wrapping:
    """Return how the message with these attributes wraps its records.

    With "auto" a message counts as InLong's where it names its wrapping as DataProxy does, or has the magic; all others
    are RAW. With "inlong" one that names no wrapping is a PACK, as for InLong's sort SDK. CorruptMessage: it names a
    wrapping that is not known.
    """
    named = message.get(VERSION, message.get(ENCODING))
    if payload == "auto" and ENCODING not in message and MESSAGE_GROUP_ID not in message:
        named = None  # anybody may call an attribute "version"
    if named is None:
        return Wrapping.PACK if payload == "inlong" or version_of(body) is not None else Wrapping.RAW
    try:
        return Wrapping(named)
    except ValueError:
        raise CorruptMessage(f"the message names wrapping {named[:50]!r}; 0, 1 and 2 are known") from None


def compression_of(message: Mapping[str, str]) -> str:
    """Return "none", "gzip" or "snappy". CorruptMessage: the message names another compression."""
    named = message.get(COMPRESSION, "0")
    if named not in COMPRESSIONS:
        raise CorruptMessage(f"the message names compression {named[:50]!r}; known are {', '.join(COMPRESSIONS)}")
    return COMPRESSIONS[named]
