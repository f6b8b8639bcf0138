"""The output of Spark's JVM in a file, so that a terminal shows what its user needs.

Spark and Ivy write a hundred lines at each start, and hundreds more of Java's traces when a batch fails.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from types import TracebackType

_POLL_SECONDS: Final = 0.5
_MOST_BYTES: Final = 1_000_000
"""Of the log's end, in which a reason is looked for."""
_LARGEST_FILE_BYTES: Final = 16_000_000
"""A job that runs for months writes some lines a batch."""


class SparkLog:
    """A new file for the output of the JVM and of its Python processes; their warnings are shown as they come.

    As a context manager. The file is removed at the end, unless `keep` was called. At 16 MB it begins anew.
    """

    def __init__(self, show: Callable[[str], object] = lambda line: print(line, file=sys.stderr, flush=True)) -> None:
        number, name = tempfile.mkstemp(prefix="tubeclient-", suffix=".log")
        os.close(number)
        self.path = Path(name)
        self._show = show
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="spark-log", daemon=True)
        self._output = self.path.open("ab", buffering=0)
        self._handler = logging.FileHandler(self.path)
        self._keep = False

    def fileno(self) -> int:
        """For a child process's standard output and error."""
        return self._output.fileno()

    def keep(self) -> None:
        """Leave the file for the user."""
        self._keep = True

    def text(self) -> str:
        """The end of the file."""
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - _MOST_BYTES))
            return file.read().decode("utf-8", errors="replace")

    def __enter__(self) -> Self:
        # Py4J logs the traces of each call that fails.
        logger = logging.getLogger("py4j")
        logger.addHandler(self._handler)
        logger.propagate = False
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(timeout=10 * _POLL_SECONDS)
        logger = logging.getLogger("py4j")
        logger.removeHandler(self._handler)
        logger.propagate = True
        self._handler.close()
        self._output.close()
        if not self._keep:
            self.path.unlink(missing_ok=True)

    def _follow(self) -> None:
        with self.path.open(encoding="utf-8", errors="replace") as file:
            rest, ended = "", False
            while not ended:
                ended = self._ended.wait(_POLL_SECONDS)
                *lines, rest = (rest + file.read()).split("\n")
                for line in filter(is_for_users, lines):
                    self._show(line)
                if self.path.stat().st_size > _LARGEST_FILE_BYTES:
                    # All who write do so at the file's end, wherever that is.
                    os.truncate(self.path, 0)
                    file.seek(0)


def is_for_users(line: str) -> bool:
    """Whether a line of the JVM's output is a warning or an error of this project's Python processes."""
    return _WARNING.search(line) is not None


def start_failure(text: str) -> str | None:
    """Why Spark did not start, from its output: one sentence with a name. None if the output does not say."""
    if _NO_JAVA.search(text):
        return (
            "[JAVA_NOT_USABLE] Java was not found. Spark 4 needs JDK 17 or newer: install one, and set JAVA_HOME to it"
        )
    if unwritable := _NO_HOME.search(text):
        return (
            f"[JARS_NOT_FOUND] Spark cannot store the jars that it downloads in {unwritable[1]}: the user's home is "
            "missing or not writable. Name a folder with --conf spark.jars.ivy=PATH, or put the jars next to Spark's "
            "own"
        )
    jars = ", ".join(dict.fromkeys(_JAR.findall(text)))
    if not jars:
        return None
    return (
        f"[JARS_NOT_FOUND] Spark cannot get {jars}. Let this machine reach a Maven repository, name one that it can "
        "reach with --conf spark.jars.repositories=URL, or name copies of the jars with --conf spark.jars=PATH,..."
    )


# As `boundary.show_log` writes them.
_WARNING: Final = re.compile(r"^[\d-]+ [\d:,]+ (?:WARNING|ERROR|CRITICAL) (?:spark_source|tubeclient|offsets_store)\b")
_NO_JAVA: Final = re.compile(
    r"JAVA_HOME is not set|Unable to locate a Java Runtime|(?m:^.*java: (?:command )?not found$)"
    r"|/bin/java: No such file"
)
_NO_HOME: Final = re.compile(r"FileNotFoundException: (\S+/\.ivy2[^/\s]*)/")
_JAR: Final = re.compile(r"unresolved dependency: ([\w.#;-]+)")
