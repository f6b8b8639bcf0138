"""How often a byte of a message is copied between the socket and the Arrow batch: new memory of each stage of reading.

Like `fetch_worker`, its file is run by itself, so that it can look at the code of another tree. All that a stage makes
is kept, and the growth of the process's memory is divided by the bytes of the messages: 1 is a copy, what is above are
objects. The socket's own copy, into a buffer that stays, comes before these.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.decode import _frames, _packs, decode, make_frames
from spark_source.options.row_options import RowOptions
from spark_source.plan.offset_rule import OffsetRule
from spark_source.read.arrow import PackDecoder
from spark_source.read.batch_sizes import gathered, regroup
from tubeclient.wire.envelope import decode_response, parse_message
from tubeclient.wire.messages import checked_columns
from tubeclient.wire.methods import Method
from tubeclient.wire.proto import broker_pb2

__all__ = ["main"]

_PACK_BYTES = 500_000
_PACKS = 80
_METHOD_ID = Method.GET_MESSAGES.spec.method_id


def main(arguments: Sequence[str]) -> int:
    """Print the stages as JSON for messages of a length; one in a process, as freed memory that is used again hides."""
    [size] = map(int, arguments)
    print(json.dumps(dict(_stages(size))))
    return 0


def _stages(size: int) -> Iterator[tuple[str, float]]:
    for _ in decode(make_frames(1, 1, 1, with_attributes=False), include_attributes=False):
        pass  # what is imported and cached at the first time is no copy
    packs = make_frames(_PACKS, max(1, _PACK_BYTES // size), size, with_attributes=False)
    kept: list[Any] = []

    def growth(make: Callable[[], list[Any]]) -> float:
        before = _resident()
        kept.append(make())
        return (_resident() - before) / (len(packs.frames) * packs.messages * size)

    yield "joined", growth(lambda: list(_frames(packs)))
    frames = kept[-1]
    yield "taken out", growth(lambda: [_taken_out(frame) for frame in frames])
    data = kept[-1]
    yield "parsed", growth(lambda: [parse_message(broker_pb2.GetMessageColumnsB2C, one) for one in data])
    answers = kept[-1]
    yield "messages", growth(lambda: list(_packs(checked_columns(one.messages) for one in answers)))
    columns = kept[-1]
    decoder = PackDecoder(rows=RowOptions(), time_zone="UTC")
    ended = [*((0, pack) for pack in columns), (0, None)]
    yield "Arrow", growth(lambda: [decoder.decode(some, OffsetRule.UNKNOWN) for _, some in gathered(ended)])
    batches = kept[-1]
    yield "regrouped", growth(lambda: list(regroup(batches)))


def _taken_out(frame: Any) -> bytes:
    return decode_response(frame.stream, _METHOD_ID)


def _resident() -> int:
    """Bytes of memory that the process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
