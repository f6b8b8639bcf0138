"""What a round's changes of a key come to, and which of two changes is the later one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql import functions as F

from tubeclient_ingest.newest import later, newest

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
        change = row.change
        found[key and key.id] = (change.operation, *values, change.absent, row.tubemq.n, count)
    return found


FULL: dict[str, Any] = {"a": "a", "b": "b", "m": "m"}


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_a_change_adds_to_what_earlier_ones_said_whichever_comes_first(
    delta_spark: SparkSession, order: Sequence[int]
) -> None:
    whens = [When(5, 1), When(5, 2), When(5, 3)]
    changes = [
        change(order[0], whens[0], "insert", **FULL),
        change(order[1], whens[1], a="a2"),
        change(order[2], whens[2], b=None),
        # Another key, and what changes no row.
        change(9, When(5, 1), "insert", key=2, **FULL),
        change(8, When(5, 1), "ddl", **FULL),
    ]
    assert folded(delta_spark, *changes) == {
        1: ("update", "a2", None, "m", None, order[2], 3),
        2: ("insert", "a", "b", "m", None, 9, 1),
        None: ("ddl", "a", "b", "m", None, 8, 1),
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
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
    ],
)
def test_what_changes_come_to(delta_spark: SparkSession, changes: list[Any], expected: tuple[Any, ...]) -> None:
    rows = [change(n, When(5, n), operation, **values) for n, (operation, values) in enumerate(changes)]
    [(_, found)] = folded(delta_spark, *rows).items()
    assert found == (*expected, len(rows) - 1, len(rows))


def last(spark: SparkSession, *whens: When) -> int:
    """Which of the changes is the last one: its number. The same whether they are of one round or of two, of which the
    later one is merged on top of the other."""
    rows = [change(number, when, "insert", a=str(number), b=None, m=None) for number, when in enumerate(whens)]
    [(_, found)] = folded(spark, *rows).items()
    number = int(found[1])
    if len(whens) == 2:
        frame = spark.createDataFrame(rows, COLUMNS).select("tubemq.n", "change.sequence")
        both = frame.alias("x").join(frame.alias("y"), F.expr("x.n = 1 AND y.n = 0"))
        [pair] = both.select(F.expr(later("x.sequence", "y.sequence")), F.expr(later("y.sequence", "x.sequence"))).collect()
        assert sorted(pair) == [False, True]
        assert pair[0] == (number == 1)
    return number


@pytest.mark.parametrize(
    ("whens", "wanted"),
    [
        # By place: that a clock went back, or that an older change comes late, is outvoted.
        ([When(5, 1), When(4, 2)], 1),
        ([When(5, 2), When(4, 1)], 0),
        # A statement of MySQL that began first and waited, from another partition: its log never begins anew.
        ([When(4, 2, "binlog x"), When(5, 1, "binlog x")], 0),
        ([When(5, 1), When(5, 1)], 1),
        # A log that began anew under its name.
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
    ],
)
def test_the_last_change(delta_spark: SparkSession, whens: list[When], wanted: int) -> None:
    assert last(delta_spark, *whens) == wanted


def test_few_rows_are_left_of_a_key_that_is_changed_often(delta_spark: SparkSession) -> None:
    """Also where each update lacks columns."""
    changes = [change(n, When(n, n), **({"a": str(n)} if n % 2 else {"b": str(n)})) for n in range(5_000)]
    assert folded(delta_spark, *changes) == {1: ("update", "4999", "4998", None, ["m"], 4_999, 5_000)}
