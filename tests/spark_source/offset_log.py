"""Reads an entry of the offset log in the checkpoint of a query with one source."""

from __future__ import annotations

from spark_source.offsets.offsets import Offsets

__all__ = ["ends_of"]


def ends_of(text: str) -> dict[str, int]:
    """Where the batch ends, by partition key. The entry has its version, a line of metadata, and a line for the source,
    which in version 2 begins with the source's name."""
    version, _, source = text.strip().split("\n")
    offsets = Offsets.parse(source if version == "v1" else source.partition(":")[2])
    return {str(key): at for key, at in offsets.items()}
