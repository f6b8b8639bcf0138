"""Every option of reads and writes, from the fields of SourceOptions and SinkOptions."""

from __future__ import annotations

from typing import Final

from spark_source.options.option import Option, options_of
from spark_source.options.sink_options import SinkOptions
from spark_source.options.source_options import SourceOptions

__all__ = ["OPTIONS", "find_option", "markdown"]

_READING: Final = tuple(options_of(SourceOptions).values())
_WRITING: Final = tuple(options_of(SinkOptions).values())

_ALL: Final = (*_READING, *(option for option in _WRITING if option not in _READING))

OPTIONS: Final[tuple[Option, ...]] = tuple(option for option in _ALL if not option.internal)
"""Those that users may set, in the order of the documentation."""


def find_option(key: str) -> Option | None:
    """The option of a name in any case, internal ones too; None if unknown."""
    return next((option for option in _ALL if option.matches(key)), None)


def markdown() -> str:
    """The options as a Markdown table."""
    lines = ["| option | default | applies to | meaning |", "|---|---|---|---|"]
    lines += [f"| `{option.name}` | {option.default} | {_uses(option)} | {option.doc} |" for option in OPTIONS]
    return "\n".join([*lines, ""])


def _uses(option: Option) -> str:
    reads = {None: "reads", "stream": "streaming reads", "batch": "batch reads"}[option.only]
    return ", ".join([*[reads] * (option in _READING), *["writes"] * (option in _WRITING)])
