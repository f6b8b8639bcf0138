"""Records: the bytes of many records to typed Arrow columns, and a reason for each record that is bad.

Needs pyarrow: `pip install 'pyspark-tubeclient[inlong]'`.
"""

from tubeclient.extras import brought_by

with brought_by("inlong"):
    from tubeclient.records.decoder import Decoded, Decoder
    from tubeclient.records.fault import BadRecord
    from tubeclient.records.spec import RecordSpec

__all__ = ["BadRecord", "Decoded", "Decoder", "RecordSpec"]
