"""One row of the table of options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["REQUIRED", "OptionRow", "Reads"]

REQUIRED: Final = object()
"""The default of an option that has to be given."""

Reads = Literal["both", "stream", "batch", "none"]


@dataclass(frozen=True, slots=True)
class OptionRow:
    """One option. Spark hands names over in lower case; users write them in any."""

    name: str
    """As documented. A trailing `*` stands for any rest: such options make one mapping from the rest to the value."""
    field: str
    """The field of SourceOptions, SinkOptions or both."""
    parse: Callable[[str], Any]
    """From the user's text; raises ValueError with the rest of the sentence "<name> ..."."""
    default: Any
    """The field's value where the option is not given."""
    default_doc: str
    """The default as the documentation writes it."""
    doc: str
    reads: Reads = "both"
    """Which reads it applies to."""
    secret: bool = False
    """Its value may appear nowhere."""
    writes: bool = False
    """Whether it applies to writes, streaming and batch."""

    def applies_to(self, use: Literal["read", "write"]) -> bool:
        """Whether the option is one for reads, or for writes."""
        return self.writes if use == "write" else self.reads != "none"

    def matches(self, key: str) -> bool:
        """Whether `key`, in any case, is this option."""
        wanted = self.name.lower()
        if wanted.endswith("*"):
            return key.lower().startswith(wanted[:-1]) and len(key) >= len(wanted)
        return key.lower() == wanted
