"""The demonstration's proof: compares what was sent with what is in the tables, without Spark.

delta-rs reads the Delta tables, and HTTP calls query the brokers. Nothing here relies on the job or the source.
"""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jobs.flights import Tally, tally
from tubeclient.keys import INDEX_ENTRY_BYTES, MAX_STORE_PARTITIONS

__all__ = ["Check", "broker_ends", "prove_offsets", "prove_resume", "prove_rows"]

_HTTP_SECONDS = 10.0


class Check(NamedTuple):
    """One statement, and whether it holds."""

    statement: str
    holds: bool
    detail: str


def prove_rows(table: Path, sent: Tally, ends: Mapping[str, int]) -> list[Check]:
    """Compare the table's rows with the sent messages, and with what the brokers hold up to `ends` (by partition key).

    The brokers may hold a message twice: a producer sends it again if no answer came in time. Then the table has both.
    """
    held = sum(end // INDEX_ENTRY_BYTES for end in {_store(key): end for key, end in ends.items()}.values())
    columns = _read(table, 'SELECT "partitionKey", "messageId", "value" FROM found')
    values: list[bytes] = columns["value"]
    received = tally(set(values))
    numbers = len({json.loads(value)["seq"] for value in values})
    stored = zip(columns["partitionKey"], columns["messageId"], strict=True)
    # Ids are unique within a store, so reduce "brokerId:topic:partitionId" to the store.
    ids = len({(*_store(key), message_id) for key, message_id in stored})
    return [
        Check("as many rows as the brokers hold messages", len(values) == held, f"{len(values):,} of {held:,}"),
        Check("no message twice, by the broker's id", ids == len(values), f"{ids:,} ids within their stores"),
        Check("each flight is there, by its number", numbers == sent.count, f"{numbers:,} of {sent.count:,}"),
        Check("the same bytes", received == sent, f"{received.digest:016x} and {sent.digest:016x}"),
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


def prove_resume(offsets_table: Path, consumer_group: str, table: Path) -> Check:
    """Compare the group's positions with the table's rows: a restart continues from there."""
    [rows] = _read(table, "SELECT COUNT(*) AS n FROM found")["n"]
    at = _positions(offsets_table, consumer_group)
    # Partitions of a store share its index; each message takes one entry.
    stores = {_store(key): offset // INDEX_ENTRY_BYTES for key, offset in at.items()}
    complete = sum(stores.values())
    return Check(
        "after run 1 the offsets table was at the end of the rows",
        complete == rows > 0,
        f"{complete:,} rows complete in {len(at)} partitions, {rows:,} in the table",
    )


def _positions(offsets_table: Path, consumer_group: str) -> dict[str, int]:
    """The group's positions in the offsets table, by partition key."""
    columns = _read(
        offsets_table,
        'SELECT "brokerId", "topic", "partitionId", "nextOffset" FROM found'
        f" WHERE \"consumerGroup\" = '{consumer_group}' AND \"kind\" = 'position'",
    )
    rows = zip(columns["brokerId"], columns["topic"], columns["partitionId"], columns["nextOffset"], strict=True)
    return {f"{broker}:{topic}:{partition}": offset for broker, topic, partition, offset in rows}


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


def _read(table: Path, query: str) -> dict[str, list[Any]]:
    import pyarrow as pa
    from deltalake import DeltaTable, QueryBuilder

    found = pa.table(QueryBuilder().register("found", DeltaTable(str(table))).execute(query).read_all())
    return {name: found.column(name).to_pylist() for name in found.column_names}
