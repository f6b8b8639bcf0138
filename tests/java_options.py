"""Options of the JVMs that tests start for Spark."""

from __future__ import annotations

from typing import Final

__all__ = ["JAVA_OPTIONS"]

JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
"""For JVMs that live for minutes at most: compile soon, not thoroughly, and with one thread each."""
