"""Declares options: a dataclass field gives an option's name, parser, default and documentation.

    retry_limit_ms: int = option("retryLimit", to.duration_ms(1_000), "60s", "How long reads retry.")

The field's type is the parser's result. The table of options, the parsing of users' texts, and the documentation page
all come from the fields of SourceOptions and SinkOptions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeVar

T = TypeVar("T")

_OPTION: Final = "option"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A field's option. Spark passes names in lower case; users may write any case."""

    name: str
    """The documented name. A trailing `*` stands for any rest; such options form one mapping from the rest to the
    value."""
    parse: Callable[[str], Any]
    """From the user's text. Raises ValueError with the rest of the sentence "<name> ..."."""
    default: str
    """The documented default."""
    doc: str
    only: Literal["stream", "batch"] | None = None
    """The only kind of read that it applies to."""
    required: bool = False
    secret: bool = False
    """Its value must not appear anywhere."""
    internal: bool = False
    """For tests: accepted, and in no list."""

    def matches(self, key: str) -> bool:
        """Whether `key`, ignoring case, names this option."""
        wanted = self.name.lower()
        if wanted.endswith("*"):
            return key.lower().startswith(wanted[:-1]) and len(key) >= len(wanted)
        return key.lower() == wanted


def required(name: str, parse: Callable[[str], T], doc: str) -> T:
    """The field of a required option."""
    made: T = field(metadata={_OPTION: Option(name=name, parse=parse, default="required", doc=doc, required=True)})
    return made


def option(name: str, parse: Callable[[str], T], default: str, doc: str, **more: Any) -> T:
    """The field of an option; `default` is a text that users could also write. `more` are fields of Option."""
    made = Option(name=name, parse=parse, default=f"`{default}`", doc=doc, **more)
    return field(default_factory=lambda: parse(default), metadata={_OPTION: made})


def optional(name: str, parse: Callable[[str], Any], unset: T, unset_doc: str, doc: str, **more: Any) -> T:
    """The field of an option that is `unset` by default; `unset_doc` explains that. `more` are fields of Option."""
    made = Option(name=name, parse=parse, default=unset_doc, doc=doc, **more)
    return field(default_factory=lambda: unset, repr=not made.secret, metadata={_OPTION: made})


def options_of(kind: type) -> dict[str, Option]:
    """Return the options of a class by field, in the order of the documentation."""
    return {field.name: field.metadata[_OPTION] for field in fields(kind) if _OPTION in field.metadata}


class Masked(Mapping[str, str]):
    """A mapping whose values do not appear in its repr, nor in that of objects that hold it."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = dict(values)

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{key}: ***" for key in sorted(self._values)) + "}"
