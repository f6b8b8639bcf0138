"""The definition of an InLong stream that a table keeps, and what became of it since. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from tubeclient.printable import printable
from tubeclient.records.inlong_stream import StreamFormat, columns_of, parse_stream

PROPERTY: Final = "tubeclient.inlongStream"
"""The table's property that has the definition its rows were written by, as `InlongManager.streams` gives it."""

_TIMES: Final = {"timestampFormat": "TIMESTAMP", "dateFormat": "DATE"}


class Change(NamedTuple):
    """What a newer definition of a stream says otherwise."""

    added: dict[str, str]
    """New fields, with Spark's types: the table is widened by them."""
    other: str | None
    """All else that is different, for people: old rows and new ones would not mean the same. None: nothing."""


def change(old: str, new: str) -> Change:
    """From one definition to another, as they mean records: what is written otherwise and means the same, such as
    "|" and "124", or INT and INTEGER, is none. Of a new one that cannot be parsed `other` says why; ValueError for an
    old one."""
    if old == new:
        return Change({}, None)
    before = parse_stream(old)
    try:
        after = parse_stream(new)
    except ValueError as error:
        return Change({}, f"the new definition {error}")
    if before.kind != after.kind:
        return Change({}, f"dataType was {before.kind} and is {after.kind}")
    had, has = ({} if after.kind == "raw" else columns_of(text) for text in (old, new))
    was, now = _meaning(before), _meaning(after)
    for name, kind in _TIMES.items():
        if not any(kind in data_type for data_type in had.values()):  # then it is that of new fields
            now.pop(name, None)
    texts = [
        f"{name} was {was.get(name)!r} and is {now.get(name)!r}"
        for name in {**was, **now}
        if was.get(name) != now.get(name)
    ]
    texts += [f"the field {name} was removed" for name in had if name not in has]
    texts += [
        f"the field {name} was {kind} and is {has[name]}" for name, kind in had.items() if has.get(name, kind) != kind
    ]
    # Fields of csv have no names in records, only places.
    if not texts and after.kind == "csv" and list(has)[: len(had)] != list(had):
        texts = [f"the order of fields changed: {', '.join(has)}"]
    added = {name: kind for name, kind in has.items() if name not in had}
    return Change(added, printable("; ".join(texts)) or None)


def _meaning(form: StreamFormat) -> dict[str, str | None]:
    """How records are written, by Manager's names and those of options."""
    options = {name: text for name, text in form.options.items() if name != "quote"}  # follows from the escape
    return {
        "dataSeparator": form.separator,
        "dataEscapeChar": form.escape,
        "dataEncoding": form.encoding.upper(),
        **options,
    }
