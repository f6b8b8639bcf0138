"""A disk that is full, in both ways: what is written fails, and can be written afterwards."""

from __future__ import annotations

import re
import signal
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exactly_once.full_disk import NO_SPACE, Disk
from tests.exactly_once.processes import Child, marked, none_left, send_signal
from tests.waiting import wait_for

WRITER = """
import sys, time
while True:
    try:
        with open(sys.argv[1], "ab") as file:
            file.write(b"x" * 8192)
        said = "written"
    except OSError as error:
        said = error.strerror
    print(said, flush=True)
    time.sleep(0.02)
"""


@pytest.fixture(params=[True, False], ids=["mounted", "files limited"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    """In both ways; where nothing may be mounted, both are the second."""
    if not request.param:
        monkeypatch.setattr("tests.exactly_once.full_disk._mount", lambda *_: False)
    with Disk(tmp_path / "disk") as disk:
        yield disk


def test_nothing_can_be_written_to_a_full_disk(disk: Disk, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    file = disk.folder / "file"
    with none_left(mark):
        # Through a pipe, as a limit for files holds for the log too.
        command = ["bash", "-c", f"{sys.executable} -c '{WRITER}' {file} | cat"]
        writer = Child("writer", command, tmp_path / "log", mark)
        try:
            wait_for(lambda: file.exists() and file.stat().st_size, "something to be written")
            [process] = [one for one in marked(mark) if one.command.startswith(sys.executable)]
            with disk.full([process]):
                wait_for(lambda: re.search(NO_SPACE, writer.log.read_text()), "an error")
                size = file.stat().st_size
            wait_for(lambda: file.stat().st_size > size, "more to be written")
        finally:
            for one in marked(mark):
                send_signal(one, signal.SIGKILL)
            writer.kill()


def test_what_was_written_is_kept(tmp_path: Path) -> None:
    with Disk(tmp_path / "disk") as disk:
        (disk.folder / "file").write_text("kept")
    assert (tmp_path / "disk" / "file").read_text() == "kept"
    assert not (tmp_path / "disk").is_mount()
