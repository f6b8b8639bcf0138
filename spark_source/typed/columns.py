"""The columns of parsed rows, of typed targets, and of the source, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

RECORD: Final = "record"
"""The parsed rows' struct of the columns that go to the target; null in a bad row."""
BAD_REASON: Final = "badReason"
"""Why a parsed row is bad; null in a good one."""
BAD_RECORD: Final = "bad record in "
"""How the error of a bad record begins."""
UNREAD: Final = "unread"
"""Whether a parsed row is bad because the source could not read the message: no format makes it good."""
VALUE: Final = "value"
"""The source's column of the record's bytes."""
LINEAGE: Final = "tubemq"
"""The target's struct of where a typed row comes from: the source's columns but value and badReason."""
CHANGE: Final = "change"
"""The target's struct of what was done to a row, and of what orders the changes of a key."""
ARRIVAL: Final = "__arrival"
"""struct<round: BIGINT, place: BIGINT>, beside the source's columns: the round that read the message, and its place
there. Orders changes that the record itself does not."""
PLACE_WORDS: Final[Mapping[str, str]] = {
    "topic": "topic",
    "partitionKey": "partition",
    "offset": "offset",
    "messageId": "message id",
    "recordIndex": "record",
}
"""The source's columns that name a record, and what people call them."""
