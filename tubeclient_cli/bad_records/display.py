"""Output of `tubeclient bad-records`: tables for people, JSON for scripts."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from tubeclient_cli.bad_records.table import BadRecord, Found

__all__ = ["bad_records_json", "print_bad_records"]

_SHOWN_BYTES = 60


def print_bad_records(console: Console, found: Found, nothing: str) -> None:
    """`nothing` is said if there is none."""
    if not found.records:
        console.print(nothing, soft_wrap=True)
        return
    reasons = Table()
    for column in ("group", "state", "reason", "records", "newest"):
        reasons.add_column(column, justify="right" if column == "records" else "left", overflow="fold")
    for one in found.reasons:
        reasons.add_row(one.consumer_group, one.state, one.reason, f"{one.records:,}", _time(one.newest))
    console.print(reasons)
    if found.reasons_in_all > len(found.reasons):
        console.print(f"{found.reasons_in_all:,} reasons, of which the {len(found.reasons):,} most frequent are shown")
    newest = Table()
    for column in ("time", "group", "state", "partition", "message id", "record", "reason", "bytes"):
        newest.add_column(column, overflow="fold")
    for record in found.newest:
        newest.add_row(
            _time(record.time),
            record.consumer_group,
            record.state,
            record.partition,
            str(record.message_id),
            "-" if record.record_index is None else str(record.record_index),
            record.reason,
            _shown(record.value),
        )
    console.print(newest)
    for target in found.unjudged:
        console.print(
            f"the target {target} cannot be read here, so none of its records counts as undone", soft_wrap=True
        )
    console.print(f"{found.records:,} records, of which the newest {len(found.newest):,} are shown")


def bad_records_json(found: Found) -> dict[str, Any]:
    return {
        "records": found.records,
        "reasonsInAll": found.reasons_in_all,
        "reasons": [
            {
                "consumerGroup": one.consumer_group,
                "state": one.state,
                "reason": one.reason,
                "records": one.records,
                "newest": one.newest.isoformat(),
            }
            for one in found.reasons
        ],
        "newest": [_record_json(record) for record in found.newest],
    }


def _record_json(record: BadRecord) -> dict[str, Any]:
    return {
        "consumerGroup": record.consumer_group,
        "state": record.state,
        "time": record.time.isoformat(),
        "reason": record.reason,
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "messageId": record.message_id,
        "recordIndex": record.record_index,
        "runId": record.run_id,
        "sequence": record.sequence,
        "target": record.target,
        "targetId": record.target_id,
        "valueBase64": None if record.value is None else base64.b64encode(record.value).decode(),
    }


def _shown(value: bytes | None) -> str:
    """The first bytes as text; what is not printable ASCII as \\x.."""
    if value is None:
        return "-"
    text = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in value[:_SHOWN_BYTES])
    return text if len(value) <= _SHOWN_BYTES else f"{text}... ({len(value):,} bytes)"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds")
