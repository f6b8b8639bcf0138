"""The arguments of `Ingest` with their types, for editors and type checkers. `IngestSettings` says what each means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict


class IngestArguments(TypedDict, total=False):
    """`master_servers`, `consumer_group`, `target`, and `topics` or `inlong_group` are required."""

    master_servers: str
    consumer_group: str
    topics: Sequence[str]
    target: str | Path
    inlong_group: str
    inlong_manager: str
    audit_proxies: str
    streams: Sequence[str]
    partition_by: Sequence[str]
    cluster_by: Sequence[str]
    table_properties: Mapping[str, str]
    offsets_table: str | Path
    format: Literal["raw", "json", "csv", "kv", "avro", "protobuf", "canal-json", "debezium-json"]
    key: Sequence[str]
    order_by: str
    schema: str | Path
    schema_from_inlong: str | Path
    separator: str
    escape: str
    encoding: str
    time_zone: str
    format_options: Mapping[str, str]
    evolve: bool
    bad_records: str | Path
    max_bad_records: int
    starting_offsets: str
    until: str
    former_masters: str
    source_count: int
    max_offsets_per_trigger: int
    trigger: str
    writer: Literal["auto", "spark", "tasks"]
    source_options: Mapping[str, Any]
    storage_options: Mapping[str, str]
    manager_options: Mapping[str, str]
