"""What a row is: a message or a record of one, and which columns it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from spark_source.options import parsers as to
from spark_source.options.option import option, optional

__all__ = ["ALL_ATTRIBUTES", "ATTRIBUTES", "MessageTimeOptions", "RowOptions"]

ATTRIBUTES: Final = ("*", "attributes")
"""The option `columns` for all columns of messages."""
ALL_ATTRIBUTES: Final = (*ATTRIBUTES, "recordAttributes")
"""For all columns of records."""


@dataclass(frozen=True, kw_only=True)
class MessageTimeOptions:
    """The time zone of messages, in reads and in writes."""

    message_time_zone: str = option(
        "messageTimeZone",
        to.zone,
        "UTC",
        "The time zone of the producers' clocks. Messages carry their time as text without a time zone; Java producers "
        "use the default of their machine, in China usually `Asia/Shanghai`. A write converts the column `messageTime` "
        "to this time zone.",
    )


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """What rows are made of messages."""

    payload: Literal["raw", "inlong", "auto"] = option(
        "payload",
        to.choice("raw", "inlong", "auto"),
        "raw",
        "What messages hold. `raw`: each message is a row. `inlong`: packs of records as InLong's DataProxy writes "
        "them; each record is a row, with the columns `inlongGroupId`, `inlongStreamId`, `dataTime` and "
        "`recordIndex`. `auto`: packs by DataProxy's attributes or by their magic, and all other messages raw. Limits "
        "and lag always count messages.",
    )
    bad_messages: Literal["fail", "keep"] = option(
        "badMessages",
        to.choice("fail", "keep"),
        "fail",
        "What to do with a message whose checksum is wrong, or that cannot be parsed: end with an error that names its "
        "place, or (`keep`) give a row with its bytes in `value` and the reason in the column `badReason`, which is "
        "null in all other rows.",
    )
    columns: tuple[str, ...] = optional(
        "columns",
        to.columns,
        (),
        "all but `attributes` and `recordAttributes`",
        "The only columns of the rows, as `value` or `value, messageTime`, in the order of the table of columns; `*` "
        "stands for the default, as in `*, attributes`. Spark does not tell a Python source which columns a query "
        "uses, so each column costs executors time until it is left out here.",
    )

    @property
    def include_attributes(self) -> bool:
        """Whether any column has attributes."""
        return any(name.lower() in ("attributes", "recordattributes") for name in self.columns)
