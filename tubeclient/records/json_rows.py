"""JSON to rows: the fields that columns have, and for `RESCUED` those of which they do not have all.

The value of `RESCUED` is null, or the JSON of an object with those fields, in the record's order and as often as they
are there. A field is in it as a whole: one of a struct that has more fields than its column, or in whose list an item
has, is in its column and here. What JSON has by an option of the format only, as single quotes, is here a text of what
was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tubeclient.records.json_text import POS_ONLY, Shape, fields_of, parse_object, quoted, strict_text, syntax_of
from tubeclient.records.spec import RESCUED, Column, RecordSpec
from tubeclient.records.values import Values


def json_reader(spec: RecordSpec, columns: Sequence[Column]) -> Callable[[str], dict[str, Any]]:
    """How JSON is read: gives the row of a record's text. BadRecord: it is none."""
    own = [column for column in columns if column.kind != "rescued"]
    names, rescues = {column.name for column in own}, len(own) < len(columns)
    syntax, values, shape = syntax_of(spec.options), Values(spec), _shape_of(own, others=rescues)

    def read(text: str) -> dict[str, Any]:
        whole, left = parse_object(text, syntax, shape), set[str]()
        row = values.row(fields_of(whole, wanted=names), own, text, left)
        if rescues:
            more = ((name, strict_text(text, node)) for name, node in whole.value if name not in names or name in left)
            row[RESCUED] = rescued(more)
        return row

    return read


def rescued(fields: Iterable[tuple[str, str]]) -> str | None:
    """The value of `RESCUED`, by names and values in JSON."""
    text = ",".join(f"{quoted(name)}:{value}" for name, value in fields)
    return f"{{{text}}}" if text else None


class _WithOthers(dict[str, Shape]):
    """A shape that has a position for each field."""

    def get(self, name: str, default: Any = POS_ONLY) -> Any:
        return super().get(name, default)


def _shape_of(columns: Iterable[Column], *, others: bool = False) -> dict[str, Shape]:
    """The parts of a JSON object that columns need; with `others` also the positions of fields that no column has."""
    found = {column.name: _shape(column, others=others) for column in columns}
    return _WithOthers(found) if others else found


def _shape(column: Column, *, others: bool) -> Shape:
    if column.kind == "struct":
        return _shape_of(column.parts, others=others)
    if column.kind == "list":
        return _shape(column.parts[0], others=others) or True
    return column.kind == "map"
