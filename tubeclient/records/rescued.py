"""What no column takes of a record of JSON or kv: the value of `RESCUED`, and how JSON is read with it.

It is the JSON of an object with those fields of the record of which the columns do not have all, in the record's order
and as often as they are there; or null if there are none. A field is in it as a whole: one of a struct that has more
fields than its column, or in whose list an item has, is in its column and here. What JSON has by an option of the
format only, as single quotes, is here a text of what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tubeclient.records.json_text import fields_of, parse_object, quoted, strict_text, syntax_of
from tubeclient.records.spec import RESCUED, Column, RecordSpec
from tubeclient.records.values import Values, shape_of


def rescued(fields: Iterable[tuple[str, str]]) -> str | None:
    """The column's value, by names and values in JSON."""
    text = ",".join(f"{quoted(name)}:{value}" for name, value in fields)
    return f"{{{text}}}" if text else None


def rescuing_reader(spec: RecordSpec, columns: Sequence[Column]) -> Callable[[str], dict[str, Any]]:
    """How JSON is read; `columns` are without `RESCUED`."""
    syntax, values, shape = syntax_of(spec.options), Values(spec), shape_of(columns, others=True)
    names = {column.name for column in columns}

    def read(text: str) -> dict[str, Any]:
        whole, left = parse_object(text, syntax, shape), set[str]()
        row = values.row(fields_of(whole, wanted=names), columns, text, left)
        more = ((name, strict_text(text, one)) for name, one in whole.value if name not in names or name in left)
        return {**row, RESCUED: rescued(more)}

    return read
