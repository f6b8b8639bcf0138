"""The options of writes."""

from __future__ import annotations

from dataclasses import dataclass

from spark_source.options import parsers as to
from spark_source.options.access import AccessOptions, check_access
from spark_source.options.batch_options import MessageTimeOptions
from spark_source.options.option import option, optional
from spark_source.options.row_options import PayloadOptions
from tubeclient.errors import ConfigurationError

__all__ = ["SinkOptions"]


@dataclass(frozen=True, kw_only=True)
class SinkOptions(AccessOptions, MessageTimeOptions, PayloadOptions):
    """The options of a write, streaming or batch."""

    topic: str | None = optional(
        "topic",
        to.topic,
        None,
        "the column `topic`",
        "The topic to write to. It overrides the column `topic`; one of the two is required.",
    )
    max_records_per_pack: int = option(
        "maxRecordsPerPack",
        to.integer(1, 1_000_000),
        "256",
        "With `payload=inlong`: the most records of one message. The default is DataProxy's.",
    )
    max_bytes_per_pack: int = option(
        "maxBytesPerPack",
        to.integer(1, 64 << 20),
        "327680",
        "With `payload=inlong`: the most bytes of one message's records with their attributes, before compression. A "
        "record of more bytes has a message of its own. The topic's limit applies as well. The default is DataProxy's.",
    )

    def check(self) -> None:
        """Raise ConfigurationError for options that contradict each other."""
        check_access(self)
        if self.payload == "auto":
            raise ConfigurationError("payload is auto, which is for reads; a write takes raw or inlong")
        for name in ("maxRecordsPerPack", "maxBytesPerPack"):
            if name in self.given and self.payload == "raw":
                raise ConfigurationError(f"{name} bounds InLong packs, and payload is raw; set payload to inlong")
