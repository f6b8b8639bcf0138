"""One JVM with Apache's Java client, driven over py4j, without Java source of our own."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final

from py4j.java_gateway import GatewayParameters, JavaGateway

from tests.apache.jars import pyspark_jar
from tests.apache.jvm import JvmProcess

_START_TIMEOUT: Final = 30.0
# Seconds any one py4j call may take. Above every Java-side limit that the wrappers set, so that Java's own error, which
# says what happened, comes first.
CALL_TIMEOUT: Final = 60.0


class JavaVM:
    """A JVM whose class path is TubeMQ's jars and py4j's; ends with this Python process, even if that is killed."""

    def __init__(self, workdir: Path, heap_mb: int = 256) -> None:
        self._process = JvmProcess(
            "java-client",
            "py4j.GatewayServer",
            # Loopback is py4j's default; port 0 is any free one; it prints port and token on its first two lines.
            ["--die-on-broken-pipe", "--enable-auth", "0"],
            workdir,
            heap_mb,
            extra_jars=[pyspark_jar("py4j")],
            hold_stdin=True,
        )
        self._gateway: JavaGateway | None = None

    @property
    def jvm(self) -> Any:
        """The root of Java packages: `java.jvm.java.util.HashMap()`. Starts the JVM at the first use (0.2 s)."""
        if self._gateway is None:
            self._gateway = self._start()
        return self._gateway.jvm

    @property
    def pid(self) -> int | None:
        """Of the JVM while it runs."""
        return self._process.pid

    def tail(self) -> str:
        return self._process.tail()

    def close(self) -> None:
        """Ends the JVM; bounded by 10 s."""
        if self._gateway is not None:
            # Closes our sockets, and asks the server to end; the pipe's end would make it anyway.
            self._gateway.shutdown()
            self._gateway = None
        self._process.close_stdin()
        self._process.terminate(timeout=5.0)

    def __enter__(self) -> JavaVM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> JavaGateway:
        self._process.start()
        port, token = self._process.wait_for("py4j's port and token", self._port_and_token, _START_TIMEOUT)
        parameters = GatewayParameters(port=port, auth_token=token, read_timeout=CALL_TIMEOUT)
        return JavaGateway(gateway_parameters=parameters)

    def _port_and_token(self) -> tuple[int, str] | None:
        lines = self._process.output_file.read_text().split("\n")
        # Three parts: the third, empty or not, shows that the second line is whole.
        return (int(lines[0]), lines[1]) if len(lines) >= 3 else None
