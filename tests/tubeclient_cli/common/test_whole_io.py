"""Standard input and output of other programs' making: they may not block, and may have no buffer."""

from __future__ import annotations

import fcntl
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tubeclient_cli.common.whole_io import whole_input

SECONDS = 60
LINES = 60
LINE = "y" * 177
PAGE = 4_096

PRINT = f"""
import sys, typer
from tubeclient_cli.common.terminal import clear_errors
with clear_errors("topics list"):
    for number in range({LINES}):
        if number % 2:
            typer.echo({LINE!r})
        else:
            sys.stdout.buffer.write(b"{LINE}\\n")
            sys.stdout.flush()
"""

READ = """
import sys
from tubeclient_cli.common.whole_io import whole_input
stream = whole_input(sys.stdin.buffer)
print("ready", flush=True)
print(list(stream), stream.isatty())
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_output_that_does_not_block_gets_all(unbuffered: str) -> None:
    out, into = os.pipe()
    os.set_blocking(into, False)
    room = fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, PAGE)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with subprocess.Popen(
        [sys.executable, "-c", PRINT], stdout=into, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(into)
        deadline = time.monotonic() + SECONDS
        while process.poll() is None and waiting_in(out) < room - len(LINE):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.2)  # it writes more than there is room for
        with open(out, "rb") as stream:
            found = stream.read()
        assert process.stderr is not None
        assert (process.stderr.read(), process.wait(SECONDS)) == (b"", 0)
    assert found == f"{LINE}\n".encode() * LINES


def waiting_in(pipe: int) -> int:
    """How many bytes a pipe has."""
    import array
    import termios

    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_file_that_takes_a_part_of_the_last_line_is_an_error(tmp_path: Path, unbuffered: str) -> None:
    """As a disk does that is nearly full."""
    most = LINES * (len(LINE) + 1) - 5
    with (tmp_path / "out").open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", PRINT],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)),
            timeout=SECONDS,
            check=False,
        )
    assert done.returncode != 0
    assert "input or output failed: [Errno 27] File too large\n" in done.stderr


def test_an_input_that_has_nothing_for_now_is_waited_for() -> None:
    out, into = os.pipe()
    os.set_blocking(out, False)
    with subprocess.Popen([sys.executable, "-c", READ], stdin=out, stdout=subprocess.PIPE) as process:
        os.close(out)
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.2)
        os.write(into, b"first\nsec")
        time.sleep(0.2)
        os.write(into, b"ond\n\nlast")
        os.close(into)
        assert process.stdout.read() == b"[b'first\\n', b'second\\n', b'\\n', b'last'] False\n"


def test_an_input_may_have_any_descriptor() -> None:
    """select() takes none from 1024 on."""
    source, into = os.pipe()
    os.set_blocking(source, False)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit[0], 1_100), limit[1]))
    try:
        far = fcntl.fcntl(source, fcntl.F_DUPFD, 1_024)

        def write() -> None:
            with open(into, "wb") as stream:
                stream.write(b"came")

        later = threading.Timer(0.2, write)
        later.start()
        with open(far, "rb") as stream:
            assert whole_input(stream).read() == b"came"
        later.join()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
        os.close(source)
