"""The content of messages that came through InLong: packs of records, and how to parse and make them.

Needs pyarrow: `pip install 'pyspark-tubeclient[inlong]'`.
"""

from tubeclient.extras import brought_by

with brought_by("inlong"):
    from tubeclient.inlong.attributes import Origin
    from tubeclient.inlong.packs import Limits, RecordGroup, encode_pack
    from tubeclient.inlong.records import BadMessage, Payload, Record, RecordColumns, RecordDecoder, records_of

__all__ = [
    "BadMessage",
    "Limits",
    "Origin",
    "Payload",
    "Record",
    "RecordColumns",
    "RecordDecoder",
    "RecordGroup",
    "encode_pack",
    "records_of",
]
