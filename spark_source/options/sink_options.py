"""The options of writes."""

from __future__ import annotations

from dataclasses import dataclass

from spark_source.options import parsers as to
from spark_source.options.access import AccessOptions
from spark_source.options.option import optional
from spark_source.options.row_options import MessageTimeOptions

__all__ = ["SinkOptions"]


@dataclass(frozen=True, kw_only=True)
class SinkOptions(AccessOptions, MessageTimeOptions):
    """The options of a write, streaming or batch."""

    topic: str | None = optional(
        "topic",
        to.topic,
        None,
        "the column `topic`",
        "The topic to write to. It overrides the column `topic`; one of the two is required.",
    )

    def check(self) -> None:
        """Raise ConfigurationError for options that contradict each other."""
        self.check_access()
