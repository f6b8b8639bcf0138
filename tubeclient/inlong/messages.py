"""The records of a pack's messages, message by message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from tubeclient.errors import CorruptMessage
from tubeclient.inlong.columns import Record
from tubeclient.inlong.records import RecordDecoder
from tubeclient.wire.messages import Message

__all__ = ["records_of_messages"]

_OR_KEEP: Final = '. Set bad_messages="keep" to get it with the reason'


def records_of_messages(
    messages: Iterable[Message], where: str, decoder: RecordDecoder | None = None, *, keep_bad: bool = False
) -> Iterator[tuple[Message, list[Record]]]:
    """Yield each message with its records, in order.

    A bad one has no records and a `bad_reason`; with `keep_bad` false, one that cannot be unpacked is a CorruptMessage
    that says `where` its pack is.
    """
    given = list(messages)
    good = [number for number, one in enumerate(given) if one.bad_reason is None]
    try:
        bodies, attributes = [given[number].body for number in good], [given[number].attributes for number in good]
    except CorruptMessage as error:
        raise CorruptMessage(f"{where}: {error}{_OR_KEEP}", number=error.number) from error
    next_number = 0
    for columns in (decoder or RecordDecoder()).decode(bodies, attributes):
        records: dict[int, list[Record]] = defaultdict(list)
        for at, record in zip(columns.message_numbers.to_pylist(), columns.records(), strict=True):
            records[good[at]].append(record)
        reasons = {good[one.number]: one.reason for one in columns.bad}
        for number in range(next_number, max([*records, *reasons, next_number - 1]) + 1):
            message = given[number]
            if number in reasons:
                if not keep_bad:
                    raise CorruptMessage(
                        f"{where}, the message with id {message.message_id}: {reasons[number]}{_OR_KEEP}", number=number
                    )
                message = message.marked(reasons[number])
            yield message, records.get(number, [])
            next_number = number + 1
    yield from ((message, []) for message in given[next_number:])
