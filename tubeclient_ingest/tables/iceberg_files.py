"""Files that tasks write, as an Iceberg table has them: their columns' ids, their bounds, their partitions' values."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from tubeclient_ingest.tables.data_files import DataFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

__all__ = ["PARTITIONS", "SPARKS_PARTITIONS", "added", "small"]

PARTITIONS: Final = ("string", "int", "long", "boolean", "date")
"""Types of columns that may partition a table."""
SPARKS_PARTITIONS: Final = ("string", "integer", "long", "boolean", "date")
"""The same by Spark's names."""
_EPOCH: Final = date(1970, 1, 1)


def small(field: pa.Field) -> pa.Field:
    """A field of Arrow's types without the large ones, with its id and those of fields within it, which pyiceberg's own
    conversion loses."""
    import pyarrow as pa

    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([small(each) for each in kind])
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        kind = pa.list_(small(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(small(kind.key_field), small(kind.item_field))
    elif pa.types.is_large_string(kind):
        kind = pa.string()
    elif pa.types.is_large_binary(kind):
        kind = pa.binary()
    return field.with_type(kind)


def added(handle: Table, file: DataFile) -> Any:
    """A file that a task wrote, as a snapshot of the table adds it."""
    import pyarrow.parquet as pq
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )
    from pyiceberg.manifest import DataFile as Added
    from pyiceberg.manifest import DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    found, schema = handle.metadata, handle.schema()
    footer = pq.read_metadata(io.BytesIO(base64.b64decode(file.footer)))

    def statistics(properties: Mapping[str, str]) -> Mapping[str, Any]:
        plan, mapping = compute_statistics_plan(schema, dict(properties)), parquet_path_to_id_mapping(schema)
        return data_file_statistics_from_parquet_metadata(footer, plan, mapping).to_serialized_dict()

    try:
        known = statistics(found.properties)
    except UnicodeEncodeError:  # for pyiceberg U+D800 comes behind U+D7FF, where it cuts a long text
        known = statistics({"write.metadata.metrics.default": "counts"})
    kinds = [str(schema.find_type(field.source_id)) for field in handle.spec().fields]
    values = map(_value, kinds, file.partition_values.values())
    return Added.from_args(
        content=DataFileContent.DATA,
        file_path=f"{handle.location()}/{file.path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*values),
        file_size_in_bytes=file.size,
        sort_order_id=None,
        spec_id=found.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **known,
    )


def _value(kind: str, text: str | None) -> object:
    """A partition's value from its text, as Arrow writes it."""
    if text is None or kind == "string":
        return text
    if kind == "boolean":
        return text == "true"
    return (date.fromisoformat(text) - _EPOCH).days if kind == "date" else int(text)
