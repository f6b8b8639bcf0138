"""The content of messages that came through InLong: packs of records, and how to parse and make them.

Needs pyarrow and numpy: `pip install 'pyspark-tubeclient[inlong]'`.
"""

from tubeclient.extras import brought_by

with brought_by("inlong"):
    from tubeclient.inlong.attributes import Origin
    from tubeclient.inlong.blocks import Limits
    from tubeclient.inlong.columns import BadMessage, Record, RecordColumns
    from tubeclient.inlong.encode import OwnRecord, RecordGroup, encode_pack
    from tubeclient.inlong.message_objs import Payload, Wrapping, wrapping_of
    from tubeclient.inlong.records import RecordDecoder, records_of

__all__ = [
    "BadMessage",
    "Limits",
    "Origin",
    "OwnRecord",
    "Payload",
    "Record",
    "RecordColumns",
    "RecordDecoder",
    "RecordGroup",
    "Wrapping",
    "encode_pack",
    "records_of",
    "wrapping_of",
]
