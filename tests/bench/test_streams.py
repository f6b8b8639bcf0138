"""What the streaming measurements make of Spark's progress, without Spark."""

from __future__ import annotations

from typing import Any

from bench import streams


def progress(timestamp: str, rows: int, **durations: int) -> dict[str, Any]:
    return {"timestamp": timestamp, "numInputRows": rows, "durationMs": durations}


def test_a_batch_is_in_the_sink_when_all_is_over_but_the_note_of_it() -> None:
    one = progress("1970-01-01T00:00:10.250Z", 1, triggerExecution=300, addBatch=200, walCommit=40, commitOffsets=50)
    assert streams.arrived_ms(one) == 10_250 + 300 - 50


def test_a_trigger_that_committed_nothing_ends_with_its_last_part() -> None:
    assert streams.arrived_ms(progress("1970-01-01T00:00:00.000Z", 0, triggerExecution=7, latestOffset=7)) == 7


def test_each_row_arrives_with_its_batch() -> None:
    told = [
        progress("1970-01-01T00:00:01.000Z", 2, triggerExecution=10),
        progress("1970-01-01T00:00:02.000Z", 0, triggerExecution=1),
        progress("1970-01-01T00:00:03.000Z", 1, triggerExecution=20),
    ]
    assert streams._arrivals(told) == [1_010, 1_010, 3_020]


def test_messages_are_sent_until_the_time_is_over_and_each_holds_its_own_time() -> None:
    bodies: list[bytes] = []
    sent = streams._send_for(bodies.append, 0.05, 0.005)
    assert sent
    assert sent == sorted(sent)
    assert [int(body) for body in bodies] == sent
