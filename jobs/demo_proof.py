"""The demonstration's proof: compares what was sent with what is in the tables, without Spark.

delta-rs reads the Delta tables, and HTTP calls query the brokers. Nothing here relies on the job or the source.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_STORE_PARTITIONS

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Check", "broker_ends", "prove_offsets", "prove_resume", "prove_rows"]

_HTTP_SECONDS = 10.0


class Check(NamedTuple):
    """One statement, and whether it holds."""

    statement: str
    holds: bool
    detail: str


def prove_rows(
    table: Path, bad_records: Path, flights: pyarrow.Table, broken: Mapping[int, bytes], ends: Mapping[str, int]
) -> list[Check]:
    """Compare the target's rows and the bad records with the flights that were sent, and with what the brokers hold up
    to `ends` (by partition key). `broken` are the records that no parser takes, by the number of their flight.

    The brokers may hold a message twice: a producer sends it again if no answer came in time. Then its records are
    there twice.
    """
    import pyarrow.compute as pc

    held = sum(end // INDEX_ENTRY_BYTES for end in {_store(key): end for key, end in ends.items()}.values())
    rows, bad = _read(table, "SELECT * FROM found"), _bad(table, bad_records)
    places = _places(rows, bad)
    messages = {place[:-1] for place in places}

    typed = rows.drop_columns("tubemq").cast(flights.schema)
    numbers = pc.unique(typed["seq"])
    good = sorted(set(flights["seq"].to_pylist()) - broken.keys())
    as_sent = typed.equals(flights.take(pc.index_in(typed["seq"], flights["seq"])))
    found_bad = set(bad["value"].to_pylist())
    return [
        Check(
            "the messages that the brokers hold, and no others",
            len(messages) == held,
            f"{len(messages):,} of {held:,}",
        ),
        Check(
            "each record once, in the table or among the bad records",
            len(set(places)) == len(places),
            f"{len(rows):,} + {len(bad):,} records, {len(set(places)):,} places in messages",
        ),
        Check(
            "each good flight is in the table, typed, with the values sent",
            as_sent and sorted(numbers.to_pylist()) == good,
            f"{len(numbers):,} of {len(good):,} flights, {typed.num_columns} columns",
        ),
        Check(
            "each broken record is among the bad records, with the bytes sent",
            found_bad == set(broken.values()),
            f"{len(found_bad):,} of {len(broken):,}",
        ),
    ]


def prove_offsets(offsets_table: Path, consumer_group: str, ends: Mapping[str, int]) -> Check:
    """Compare the group's positions in the offsets table with the brokers' ends, both by partition key."""
    at = _positions(offsets_table, consumer_group)
    differing = sorted(key for key in {*at, *ends} if at.get(key) != ends.get(key))
    detail = f"{len(ends)} partitions"
    if differing:
        key = differing[0]
        detail = f"{len(differing)} differ; {key}: table {at.get(key)}, broker {ends.get(key)}"
    return Check("the offsets table ends where the brokers end", bool(ends) and not differing, detail)


def prove_resume(offsets_table: Path, consumer_group: str, table: Path, bad_records: Path) -> Check:
    """Compare the group's positions with the records that are written: a restart continues from there."""
    places = _places(_read(table, "SELECT * FROM found"), _bad(table, bad_records))
    messages = len({place[:-1] for place in places})
    at = _positions(offsets_table, consumer_group)
    # Partitions of a store share its index; each message takes one entry.
    stores = {_store(key): offset // INDEX_ENTRY_BYTES for key, offset in at.items()}
    complete = sum(stores.values())
    return Check(
        "after run 1 the offsets table was at the end of the records",
        complete == messages > 0,
        f"{complete:,} messages complete in {len(at)} partitions, {messages:,} in the tables",
    )


def _places(rows: pyarrow.Table, bad: pyarrow.Table) -> list[tuple[str, str, int, int, int]]:
    """Where the records of both tables come from: broker, topic, store, message id, index in the message. Ids are
    unique within a store, not within a partition."""
    import pyarrow.compute as pc

    columns = [
        [*pc.struct_field(rows["tubemq"], name).to_pylist(), *bad[name].to_pylist()]
        for name in ("partitionKey", "messageId", "recordIndex")
    ]
    return [(*_store(key), message_id, index) for key, message_id, index in zip(*columns, strict=True)]


def _bad(table: Path, bad_records: Path) -> pyarrow.Table:
    """The bad records that count: those of commits that the target has."""
    from deltalake import DeltaTable

    texts = (commit.get("userMetadata") or "{}" for commit in DeltaTable(str(table)).history())
    commits = [record for text in texts if (record := json.loads(text).get("tubeclient")) is not None]
    there = [f'("sequence" = {one["sequence"]} AND "runId" = \'{one["runId"]}\')' for one in commits]
    return _read(bad_records, f"SELECT * FROM found WHERE {' OR '.join(there) or 'false'}")  # noqa: S608 - of our own job


def _positions(offsets_table: Path, consumer_group: str) -> dict[str, int]:
    """The group's positions in the offsets table, by partition key."""
    rows = _read(
        offsets_table,
        'SELECT "brokerId", "topic", "partitionId", "nextOffset" FROM found'  # noqa: S608 - of the demonstration's own group
        f" WHERE \"consumerGroup\" = '{consumer_group}' AND \"kind\" = 'position'",
    ).to_pylist()
    return {f"{row['brokerId']}:{row['topic']}:{row['partitionId']}": row["nextOffset"] for row in rows}


def broker_ends(web_addresses: Mapping[int, str], topic: str) -> dict[str, int]:
    """Query each broker (id to "host:webPort") for the end of its partitions of the topic. OSError without an
    answer."""
    ends = {}
    # No proxy: the brokers are on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    query = urllib.parse.urlencode({"method": "admin_query_pubinfo", "topicName": topic})
    for broker_id, address in web_addresses.items():
        with opener.open(f"http://{address}/broker.htm?{query}", timeout=_HTTP_SECONDS) as answer:
            document = json.loads(answer.read())
        for entry in document["dataSet"]:
            for found in entry["offsetInfo"]:
                ends[f"{broker_id}:{entry['topicName']}:{found['partitionId']}"] = int(found["offsetMax"])
    return ends


def _store(partition_key: str) -> tuple[str, str, int]:
    broker, topic, partition = partition_key.split(":")
    return broker, topic, int(partition) // MAX_STORE_PARTITIONS


def _read(table: Path, query: str) -> pyarrow.Table:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    return pa.table(QueryBuilder().register("found", DeltaTable(str(table))).execute(query).read_all())
