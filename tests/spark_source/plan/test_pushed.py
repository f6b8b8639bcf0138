"""What can match Spark's filters: nothing that matches is left out, and what Spark need not check matches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import datasource as spark

from spark_source.plan.pushed import Interval, Pushed, pushed
from tubeclient.keys import PartitionKey

BEGAN = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)

texts = st.sampled_from(["clicks", "click", "views", "", "1:clicks:0", "s"])
numbers = st.integers(-1, 3)
times = st.integers(0, 4).map(lambda count: BEGAN + timedelta(microseconds=count))
VALUES = {
    "topic": texts,
    "partitionKey": texts,
    "messageType": texts,
    "brokerId": numbers,
    "partition": numbers,
    "offset": numbers,
    "messageTime": times,
    "value": st.binary(max_size=1),
}
COMPARISONS = (
    spark.EqualTo,
    spark.EqualNullSafe,
    spark.GreaterThan,
    spark.GreaterThanOrEqual,
    spark.LessThan,
    spark.LessThanOrEqual,
)


@st.composite
def filters(draw: st.DrawFn, names: tuple[str, ...] = tuple(VALUES)) -> Any:
    """As Spark sends them; null only where its optimizer may leave it."""
    name = draw(st.sampled_from(names))
    values = VALUES[name]
    column = (draw(st.sampled_from([name, name.upper()])),)
    kinds = [
        st.builds(lambda kind, value: kind(column, value), st.sampled_from(COMPARISONS), values),
        st.builds(lambda some: spark.In(column, tuple(some)), st.lists(values | st.none(), min_size=1, max_size=3)),
        st.sampled_from([spark.IsNull(column), spark.IsNotNull(column)]),
        st.just(spark.EqualNullSafe(column, None)),
    ]
    if values is texts:
        parts = st.sampled_from([spark.StringStartsWith, spark.StringEndsWith, spark.StringContains])
        kinds.append(st.builds(lambda kind, value: kind(column, value), parts, values))
    one = draw(st.one_of(kinds))
    return spark.Not(one) if draw(st.booleans()) else one


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    key = PartitionKey(draw(st.integers(0, 2)), draw(st.sampled_from(["clicks", "views"])), draw(st.integers(0, 2)))
    return {
        "topic": key.topic,
        "partitionkey": str(key),
        "brokerid": key.broker_id,
        "partition": key.partition_id,
        "messagetype": draw(texts | st.none()),
        "offset": draw(numbers | st.none()),
        "messagetime": draw(times | st.none()),
        "value": draw(st.binary(max_size=1)),
    }


def matches(one: Any, row: dict[str, Any]) -> bool | None:
    """SQL's logic: None is unknown."""
    if isinstance(one, spark.Not):
        inner = matches(one.child, row)
        return None if inner is None else not inner
    value = row[one.attribute[0].lower()]
    match type(one).__name__:
        case "IsNull" | "IsNotNull":
            return (value is None) == isinstance(one, spark.IsNull)
        case "EqualNullSafe":
            return bool(value == one.value)
    if value is None:
        return None
    match type(one).__name__:
        case "In":
            return True if value in one.value else None if None in one.value else False
        case "EqualTo":
            return bool(value == one.value)
        case "GreaterThan":
            return bool(value > one.value)
        case "GreaterThanOrEqual":
            return bool(value >= one.value)
        case "LessThan":
            return bool(value < one.value)
        case "LessThanOrEqual":
            return bool(value <= one.value)
        case "StringStartsWith":
            return bool(value.startswith(one.value))
        case "StringEndsWith":
            return bool(value.endswith(one.value))
    assert isinstance(one, spark.StringContains)
    return one.value in value


def can_match(found: Pushed, row: dict[str, Any]) -> bool:
    offset, time = row["offset"], row["messagetime"]
    time_us = None if time is None else (time - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    return (
        found.keeps(PartitionKey.parse(row["partitionkey"]))
        and _within(found.offsets, offset)
        and _within(found.times_us, time_us)
        and (found.tags is None or row["messagetype"] in found.tags)
    )


def _within(interval: Any, value: int | None) -> bool:
    if interval.is_all:
        return True
    if value is None:
        return False
    return (interval.low is None or interval.low <= value) and (interval.high is None or value <= interval.high)


@settings(max_examples=300)
@given(st.lists(filters(), min_size=1, max_size=3), rows())
def test_rows_are_those_that_sparks_own_check_leaves(given_filters: list[Any], row: dict[str, Any]) -> None:
    found, unsure = pushed(given_filters)
    assert all(any(one is other for other in given_filters) for one in unsure)
    wanted = all(matches(one, row) is True for one in given_filters)
    assert (can_match(found, row) and all(matches(one, row) is True for one in unsure)) == wanted


@given(st.lists(filters(("topic", "partitionKey", "brokerId", "partition")), min_size=1, max_size=4))
def test_spark_checks_of_partitions_only_what_null_decides(given_filters: list[Any]) -> None:
    for one in pushed(given_filters)[1]:
        inner: Any = one.child if isinstance(one, spark.Not) else one
        assert inner.value is None or None in inner.value


def test_all_filters_count() -> None:
    found, _ = pushed(
        [spark.GreaterThan(("offset",), 5), spark.LessThan(("offset",), 9), spark.LessThan(("offset",), 30)]
    )
    assert found.offsets == Interval(6, 8)
    found, _ = pushed([spark.In(("messageType",), ("a", "b")), spark.EqualTo(("messageType",), "b")])
    assert found.tags == frozenset({"b"})


def test_fields_and_times_without_a_zone_narrow_nothing() -> None:
    strange = [spark.EqualTo(("attributes", "topic"), "x"), spark.LessThan(("messageTime",), datetime(2026, 1, 1))]
    assert pushed(strange) == (Pushed(), strange)
