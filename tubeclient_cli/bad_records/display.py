"""Output of `tubeclient bad-records`: tables for people, JSON for scripts."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from tubeclient_cli.bad_records.letters import Letter, Letters

__all__ = ["letters_json", "print_letters"]

_SHOWN_BYTES = 60


def print_letters(console: Console, letters: Letters, nothing: str) -> None:
    """`nothing` is said if there is none."""
    if not letters.records:
        console.print(nothing, soft_wrap=True)
        return
    reasons = Table()
    for column in ("group", "state", "reason", "records", "newest"):
        reasons.add_column(column, justify="right" if column == "records" else "left", overflow="fold")
    for one in letters.reasons:
        reasons.add_row(one.consumer_group, one.state, one.reason, f"{one.records:,}", _time(one.newest))
    console.print(reasons)
    if letters.reasons_in_all > len(letters.reasons):
        console.print(
            f"{letters.reasons_in_all:,} reasons, of which the {len(letters.reasons):,} most frequent are shown"
        )
    newest = Table()
    for column in ("time", "group", "state", "partition", "message id", "record", "reason", "bytes"):
        newest.add_column(column, overflow="fold")
    for letter in letters.newest:
        newest.add_row(
            _time(letter.time),
            letter.consumer_group,
            letter.state,
            letter.partition,
            str(letter.message_id),
            "-" if letter.record_index is None else str(letter.record_index),
            letter.reason,
            _shown(letter.value),
        )
    console.print(newest)
    console.print(f"{letters.records:,} records, of which the newest {len(letters.newest):,} are shown")


def letters_json(letters: Letters) -> dict[str, Any]:
    return {
        "records": letters.records,
        "reasonsInAll": letters.reasons_in_all,
        "reasons": [
            {
                "consumerGroup": one.consumer_group,
                "state": one.state,
                "reason": one.reason,
                "records": one.records,
                "newest": one.newest.isoformat(),
            }
            for one in letters.reasons
        ],
        "newest": [_letter_json(letter) for letter in letters.newest],
    }


def _letter_json(letter: Letter) -> dict[str, Any]:
    return {
        "consumerGroup": letter.consumer_group,
        "state": letter.state,
        "time": letter.time.isoformat(),
        "reason": letter.reason,
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "messageId": letter.message_id,
        "recordIndex": letter.record_index,
        "queryId": letter.query_id,
        "batchId": letter.batch_id,
        "sequence": letter.sequence,
        "targetId": letter.target_id,
        "valueBase64": None if letter.value is None else base64.b64encode(letter.value).decode(),
    }


def _shown(value: bytes | None) -> str:
    """The first bytes as text; what is not printable ASCII as \\x.."""
    if value is None:
        return "-"
    text = "".join(chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in value[:_SHOWN_BYTES])
    return text if len(value) <= _SHOWN_BYTES else f"{text}... ({len(value):,} bytes)"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="seconds")
