"""A Java process of the tests: start, clean stop, kill, last output. Touches no other process."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final, TypeVar

from tests.apache.jars import class_path, java_executable

_T = TypeVar("_T")

# Seconds. Poll period of every wait here: short against a JVM's start (2 s), cheap on a machine with two cores.
POLL_S = 0.1


class ServerError(RuntimeError):
    """An Apache server did not do what was asked within its deadline; the message ends with its last log lines."""


class JvmProcess:
    """A `java MAIN ARGS` process with its own session, its log4j2 file and its standard output below `folder`.

    Its class path is `jars`, or TubeMQ's where none is given, and `extra_jars`. With `hold_stdin` its standard input is
    a pipe that ends when `close_stdin` is called or this process dies. `environment` is added to this process's.
    """

    def __init__(
        self,
        name: str,
        main_class: str,
        args: Sequence[str],
        folder: Path,
        heap_mb: int,
        *,
        jars: str | None = None,
        extra_jars: Sequence[Path] = (),
        hold_stdin: bool = False,
        environment: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.name = name
        self._main_class = main_class
        self._args = list(args)
        self._folder = folder
        self._heap_mb = heap_mb
        self._jars = jars
        self._extra_jars = list(extra_jars)
        self._hold_stdin = hold_stdin
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self.log_file = folder / f"{name}.log"
        self.output_file = folder / f"{name}.out"

    @property
    def pid(self) -> int | None:
        return self._process.pid if self.running else None  # type: ignore[union-attr]

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Returns at once; the caller waits for whatever tells that the server is ready."""
        if self.running:
            raise ServerError(f"{self.name} runs already")
        self._folder.mkdir(parents=True, exist_ok=True)
        config = self._folder / f"{self.name}-log4j2.xml"
        config.write_text(_log4j2(self.log_file))
        command = [java_executable(), f"-Xmx{self._heap_mb}m", "-Xms64m"]
        # Serial collector: the least threads and memory; on the small machines of CI also the fastest start.
        command += ["-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.net.preferIPv4Stack=true"]
        jars = os.pathsep.join([self._jars or class_path(), *map(str, self._extra_jars)])
        command += [f"-Dlog4j.configurationFile={config}", "-cp", jars, self._main_class, *self._args]
        with self.output_file.open("ab") as output:
            stdin = subprocess.PIPE if self._hold_stdin else subprocess.DEVNULL
            self._process = _popen(command, self._folder, stdin, output, self._environment)

    def request_stop(self) -> None:
        """SIGTERM without waiting, to stop several at the same time; `terminate` then waits."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def close_stdin(self) -> None:
        """The end of its standard input, which tells a process that watches it to end."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()

    def terminate(self, timeout: float) -> bool:
        """SIGTERM, which runs the server's own shutdown; True if it ended by itself within `timeout` seconds."""
        if self._process is None or self._process.poll() is not None:
            return True
        self._process.terminate()
        try:
            self._process.wait(timeout=timeout)
            return True
        except subprocess.TimeoutExpired:
            self.kill()
            return False

    def kill(self) -> None:
        """SIGKILL: no shutdown code runs; memory that was not on disk is lost."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(timeout=10)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """It does nothing for the length of the block (SIGSTOP); its connections stay, and new ones are not refused."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def failed_to_start(self) -> bool:
        """True if the process ended, or its main thread died (a refused broker goes on running without one)."""
        return not self.running or 'Exception in thread "main"' in tail(self.output_file, 400)

    def tail(self, lines: int = 25) -> str:
        """The last lines of its log and of its standard output, for an error message."""
        state = "running" if self.running else "not running"
        return (
            f"--- {self.name} ({state}), log:\n{tail(self.log_file, lines)}\n"
            f"--- {self.name}, output:\n{tail(self.output_file, lines)}"
        )

    def wait_for(self, what: str, probe: Callable[[], _T | None], timeout: float) -> _T:
        """Polls `probe` until it gives something; ServerError with the log's tail when late or the JVM is dead."""
        deadline = time.monotonic() + timeout
        while True:
            value = probe()
            if value:
                return value
            if self.failed_to_start():
                raise ServerError(f"{self.name} died before: {what}\n{self.tail()}")
            if time.monotonic() >= deadline:
                raise ServerError(f"{self.name}: not within {timeout:.0f} s: {what}\n{self.tail()}")
            time.sleep(POLL_S)


def _popen(
    command: Sequence[str], folder: Path, stdin: int, output: IO[bytes], more: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    # The servers read no variables; JAVA_TOOL_OPTIONS and friends of the caller could change heap or agents.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JAVA_", "JDK_", "_JAVA"))}
    return subprocess.Popen(
        command,
        cwd=folder,
        env={**environment, **more},
        stdin=stdin,
        stdout=output,
        stderr=subprocess.STDOUT,
        # A session of its own: Ctrl-C in the terminal must reach pytest alone, which then stops the servers in order.
        start_new_session=True,
    )


def tail(path: Path, lines: int) -> str:
    if not path.is_file():
        return "(none)"
    with path.open("rb") as handle:
        handle.seek(0, os.SEEK_END)
        handle.seek(max(0, handle.tell() - 200 * lines))
        return "\n".join(handle.read().decode(errors="replace").splitlines()[-lines:])


def _log4j2(log_file: Path) -> str:
    pattern = "%d{HH:mm:ss.SSS} %-5p [%t] %c{1} - %m%n"
    return (
        '<Configuration status="error" shutdownHook="disable">\n'
        f'  <Appenders><File name="file" fileName="{log_file}">\n'
        f'    <PatternLayout pattern="{pattern}"/>\n'
        "  </File></Appenders>\n"
        '  <Loggers><Root level="info"><AppenderRef ref="file"/></Root></Loggers>\n'
        "</Configuration>\n"
    )


def accepts(host: str, port: int) -> bool:
    """True if something listens there."""
    try:
        with socket.create_connection((host, port), timeout=1.0):
            return True
    except OSError:
        return False


_BLOCK: Final = 50
_blocks: list[socket.socket] = []
"""What holds this process's blocks of ports. As long as it lives no other process takes one of them, also while a
server that has it is restarted."""


def free_ports(count: int) -> list[int]:
    """Distinct ports free on all interfaces, at most 50, below the range from which the kernel takes clients' ports.

    Otherwise an outgoing connection could take one between here and the server's bind.
    """
    for start in random.SystemRandom().sample(range(15_000, 32_000, _BLOCK), k=100):
        block = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError):
            block.bind(("127.0.0.1", start))
            found = [port for port in range(start, start + _BLOCK) if _is_free(port)]
            if len(found) >= count:
                _blocks.append(block)
                return found[:count]
        block.close()
    raise ServerError(f"no {count} free ports in a hundred places")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", port))
        except OSError:
            return False
    return True
