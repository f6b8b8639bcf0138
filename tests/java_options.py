"""Options of the JVMs that tests start for Spark."""

from __future__ import annotations

from typing import Final

from tests.spark_home import class_archive

__all__ = ["JAVA_OPTIONS", "QUIET"]

QUIET: Final = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""Says nothing about archives of classes."""


def _sharing() -> list[str]:
    archive = class_archive()
    return [] if archive is None else [f"-XX:SharedArchiveFile={archive}", QUIET]


_COMPILER: Final = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""With this compiler alone Java reserves 48 MB for its code. Some twenty runs of the ingest job fill that; from then on
Java throws code away and compiles it anew, at up to twice the cost."""

JAVA_OPTIONS: Final = " ".join([*_COMPILER, "-XX:+UseSerialGC", "-XX:-UsePerfData", *_sharing()])
"""For JVMs that live for minutes at most: compile soon, not thoroughly, and with one thread each; and load classes that
were parsed and verified before, where they fit."""
