"""Folders are looked through while others write to them."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from jobs.sizes import sizes_below


def test_each_file_counts_once(tmp_path: Path) -> None:
    (tmp_path / "part" / "more").mkdir(parents=True)
    for number, name in enumerate(["one", "part/two", "part/more/three"], 1):
        (tmp_path / name).write_bytes(bytes(number))
    assert sorted(sizes_below(tmp_path)) == [1, 2, 3]
    assert [*sizes_below(tmp_path / "nowhere")] == []


def test_what_is_removed_meanwhile_is_left_out(tmp_path: Path) -> None:
    """As Spark removes what a task wrote first."""
    (tmp_path / "kept").write_bytes(b"1234567")
    over = threading.Event()

    def write_and_remove() -> None:
        while not over.is_set():
            for number in range(20):
                folder = tmp_path / f"task{number}" / "attempt" / "files"
                folder.mkdir(parents=True)
                (folder / "part").write_bytes(b"1")
            for number in range(20):
                shutil.rmtree(tmp_path / f"task{number}")

    writer = threading.Thread(target=write_and_remove)
    writer.start()
    try:
        found = [sum(size for size in sizes_below(tmp_path) if size != 1) for _ in range(500)]
    finally:
        over.set()
        writer.join()
    assert {*found} == {7}
