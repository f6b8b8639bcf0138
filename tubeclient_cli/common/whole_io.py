"""Standard input and output that are read and written as a whole, whatever kind of file they are.

They may not block: another program that has the same terminal or pipe may have said so, as Node.js and ssh do. Python
then takes "nothing for now" for the end of the input, and "no room for now" for a failed write. With PYTHONUNBUFFERED
it also forgets what a write did not take: there is no buffer that would write the rest.
"""

from __future__ import annotations

import io
import os
import select
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

__all__ = ["whole_input", "whole_output"]

_BUFFER_BYTES: Final = 1 << 16


def whole_input(stream: BinaryIO) -> BinaryIO:
    """`stream`, of which nothing was read yet, but one that waits where there is nothing to read for now."""
    raw: Any = getattr(stream, "raw", None)
    if not isinstance(raw, io.FileIO):
        return stream
    return cast(BinaryIO, io.BufferedReader(_Waiting(raw), _BUFFER_BYTES))


def whole_output(stream: io.TextIOWrapper) -> io.TextIOWrapper:
    """`stream`, but one whose every write is complete, or an error. Lines come as soon as before."""
    written = cast(Any, stream.buffer)
    raw = getattr(written, "raw", written)
    if not isinstance(raw, io.FileIO) or (raw is not written and os.get_blocking(raw.fileno())):
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(_Waiting(raw), _BUFFER_BYTES),
        stream.encoding,
        stream.errors,
        line_buffering=raw is written or stream.line_buffering,
        write_through=True,
    )


class _Waiting(io.RawIOBase):
    """Does not close the file."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file

    def readable(self) -> bool:
        return self._file.readable()

    def writable(self) -> bool:
        return self._file.writable()

    def isatty(self) -> bool:
        return self._file.isatty()

    def fileno(self) -> int:
        return self._file.fileno()

    def readinto(self, buffer: WriteableBuffer) -> int:
        while (count := cast("int | None", self._file.readinto(buffer))) is None:
            self._wait_for(select.POLLIN)
        return count

    def write(self, data: ReadableBuffer) -> int:
        while (count := cast("int | None", self._file.write(data))) is None:
            self._wait_for(select.POLLOUT)
        return count

    def _wait_for(self, event: int) -> None:
        looking = select.poll()  # select() takes no descriptor from 1024 on
        looking.register(self._file, event)
        looking.poll()
