"""What a round's changes of a key come to, and which of two changes is the later one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F

from tubeclient_ingest.rounds.newest import before_all, later, newest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEQUENCE = "STRUCT<time: BIGINT, log: STRING, position: ARRAY<BIGINT>, round: BIGINT, place: BIGINT, row: INT>"
COLUMNS = (
    "id BIGINT, a STRING, b STRING, m MAP<STRING, STRING>, tubemq STRUCT<n: INT>,"
    f" change STRUCT<operation: STRING, absent: ARRAY<STRING>, sequence: {SEQUENCE}>"
)


class When(NamedTuple):
    """The order of a change; it came by its number in the round."""

    time: int | None
    place: int | None
    log: str | None = "A"


def change(
    number: int, when: When, operation: str = "update", *, key: int = 1, **values: str | None
) -> tuple[Any, ...]:
    """A change that came as the `number`th, and knows the columns that are given."""
    sequence = (when.time, when.log, [] if when.place is None else [when.place], 1, number, 0)
    absent = [name for name in ("a", "b", "m") if name not in values] if operation != "delete" else []
    known = {**dict.fromkeys(("a", "b", "m")), **values}
    m = None if known["m"] is None else {"k": known["m"]}
    return key, known["a"], known["b"], m, (number,), (operation, absent or None, sequence)


def folded(spark: SparkSession, *changes: tuple[Any, ...]) -> dict[int | None, Any]:
    """By key: the operation, the columns' values, those absent, which message it was, and how many rows there were."""
    rows = spark.createDataFrame([*changes], COLUMNS)
    found = {}
    for key, row, count in newest(rows.repartition(3), ("id",)).collect():
        values = (row.a, row.b, row.m and row.m["k"])
        found[key and key.id] = (row.change.operation, *values, row.change.absent, row.tubemq.n, count)
    return found


FULL: dict[str, Any] = {"a": "a", "b": "b", "m": "m"}


def test_changes_add_up_in_any_order(delta_spark: SparkSession) -> None:
    """A change adds to what earlier ones set, whichever comes first."""
    changes: list[tuple[Any, ...]] = []
    expected: dict[int | None, Any] = {None: ("ddl", "a", "b", "m", None, 8, 1)}
    for key, order in enumerate(itertools.permutations(range(3))):
        changes += [
            change(order[0], When(5, 1), "insert", key=key, **FULL),
            change(order[1], When(5, 2), key=key, a="a2"),
            change(order[2], When(5, 3), key=key, b=None),
        ]
        expected[key] = ("update", "a2", None, "m", None, order[2], 3)
    # What changes no row.
    other = change(8, When(5, 1), "ddl", **FULL)
    assert folded(delta_spark, *changes, other) == expected


COME_TO: list[tuple[list[tuple[str, dict[str, Any]]], tuple[Any, ...]]] = [
    # What nobody said is left to the table.
    ([("update", {"a": "1"}), ("update", {"a": "2"})], ("update", "2", None, None, ["b", "m"])),
    ([("update", {"a": "1", "b": "1"}), ("update", {"a": "2"})], ("update", "2", "1", None, ["m"])),
    # A null was said.
    ([("update", {"a": None, "b": "1", "m": "1"}), ("update", {"b": "2"})], ("update", None, "2", "1", None)),
    # A new row has nothing of the former one with this key, here or in the table.
    ([("update", FULL), ("delete", {}), ("insert", {"a": "1"})], ("insert", "1", None, None, ["b", "m"])),
    (
        [("update", FULL), ("delete", {}), ("insert", {"a": "1"}), ("update", {"a": "2"})],
        ("insert", "2", None, None, ["b", "m"]),
    ),
    ([("update", FULL), ("delete", {}), ("update", {"a": "1"})], ("insert", "1", None, None, ["b", "m"])),
    ([("update", FULL), ("snapshot", {**FULL, "a": "1"}), ("update", {"b": "2"})], ("update", "1", "2", "m", None)),
    ([("insert", FULL), ("update", {"a": "1"}), ("delete", {})], ("delete", None, None, None, None)),
]


def test_what_changes_come_to(delta_spark: SparkSession) -> None:
    rows: list[tuple[Any, ...]] = []
    expected: dict[int | None, Any] = {}
    for key, (changes, wanted) in enumerate(COME_TO):
        for number, (operation, values) in enumerate(changes):
            rows.append(change(number, When(5, number), operation, key=key, **values))
        expected[key] = (*wanted, len(changes) - 1, len(changes))
    assert folded(delta_spark, *rows) == expected


LAST: list[tuple[list[When], int]] = [
    # By place: that a clock went back, or that an older change comes late, is outvoted.
    ([When(5, 1), When(4, 2)], 1),
    ([When(5, 2), When(4, 1)], 0),
    ([When(5, 1), When(5, 1)], 1),
    # A statement of MySQL that began first and waited, from another partition: its log never begins anew.
    ([When(4, 2, "binlog x"), When(5, 1, "binlog x")], 0),
    # Another one does, under its name.
    ([When(5, 1_000), When(6, 3)], 1),
    ([When(5, 1_000), When(6, 3), When(7, 4)], 2),
    # Another log: time decides, and at the same time the one that came later.
    ([When(5, 1_000), When(6, 3, "B")], 1),
    ([When(6, 3, "B"), When(5, 1_000)], 0),
    ([When(5, 1_000), When(5, 3, "B")], 1),
    ([When(5, 3, "B"), When(5, 1_000)], 1),
    ([When(5, 7), When(6, 3, "B"), When(7, 8)], 2),
    # What a snapshot read has no time.
    ([When(None, 8), When(5, 9)], 1),
    ([When(5, 7), When(None, 8)], 1),
    ([When(5, 9), When(None, 8)], 0),
    ([When(None, 8), When(5, 7)], 0),
    ([When(None, 8, None), When(5, 3)], 1),
    ([When(5, 3), When(None, 8, None)], 0),
    ([When(None, 9, None), When(None, 8, None)], 1),
    # Without places, as Flink writes them.
    ([When(None, None, None), When(None, None, None)], 1),
    ([When(5, None), When(4, None)], 0),
    ([When(5, None), When(5, None)], 1),
]
"""Changes as they came, and which of them is the last one."""


def test_the_last_change_of_a_round(delta_spark: SparkSession) -> None:
    rows = [
        change(number, when, "insert", key=key, a="a", b=None, m=None)
        for key, (whens, _) in enumerate(LAST)
        for number, when in enumerate(whens)
    ]
    found = {key: values[5] for key, values in folded(delta_spark, *rows).items()}
    assert found == {key: wanted for key, (_, wanted) in enumerate(LAST)}


def test_merge_picks_the_same_last_change(delta_spark: SparkSession) -> None:
    """A merge into the table picks the same last change of two as a round does."""
    pairs = [(whens, wanted) for whens, wanted in LAST if len(whens) == 2]
    rows = [
        (key, *(change(number, when)[-1][-1] for number, when in enumerate(whens)))
        for key, (whens, _) in enumerate(pairs)
    ]
    frame = delta_spark.createDataFrame(rows, f"key INT, first {SEQUENCE}, second {SEQUENCE}")
    fields = frame.select("first.*").columns
    asked = (later("second", "first"), later("first", "second"), later("second", before_all("first", fields)))
    found = frame.select("key", *map(F.expr, asked)).collect()
    assert {row[0]: tuple(row[1:]) for row in found} == {
        key: (wanted == 1, wanted == 0, wanted == 1) for key, (_, wanted) in enumerate(pairs)
    }


def test_key_that_changes_often(delta_spark: SparkSession) -> None:
    """Also where each update lacks columns."""
    said: list[dict[str, Any]] = [{"a" if number % 2 else "b": str(number)} for number in range(5_000)]
    changes = [change(number, When(number, number), **values) for number, values in enumerate(said)]
    assert folded(delta_spark, *changes) == {1: ("update", "4999", "4998", None, ["m"], 4_999, 5_000)}
