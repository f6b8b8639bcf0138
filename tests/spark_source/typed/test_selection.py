"""Columns that SQL expressions compute: which lists are taken, what becomes of values, and which records are bad."""

from __future__ import annotations

import hashlib
import json
import pickle
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.typed import selection
from spark_source.typed.selecting import Selecting
from spark_source.typed.selection import Selection
from tubeclient.errors import ConfigurationError
from tubeclient.records import Decoder, RecordSpec

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("Price", pa.string()),
        ("ts", pa.timestamp("us", "UTC")),
        ("s", pa.struct([("f", pa.int32())])),
        ("tags", pa.list_(pa.string())),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)
AT = pa.timestamp("us", "UTC")
ROOT = Path(__file__).parents[3]
RECORD = {"id": 1, "Price": "1.5", "ts": "2026-01-01T20:00:00Z", "s": {"f": 3}, "tags": ["A"], "m": {"k": 1}}


def select(
    text: str, *records: Any, columns: pa.Schema = COLUMNS, kind: str = "json", zone: str = "UTC", **more: Any
) -> list[Any]:
    """For each record its columns, or why it is bad."""
    found_selection = pickle.loads(pickle.dumps(Selection.of(text, columns, zone)))
    selecting = Selecting(found_selection, Decoder(RecordSpec(kind=kind, schema=columns, time_zone=zone, **more)))
    values = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in records]
    found = selecting.decode(pa.array(values, pa.binary()))
    found.records.validate(full=True)
    both = zip(found.records.to_pylist(), found.reasons.to_pylist(), strict=True)
    assert all((one is None) == (reason is not None) for one, reason in both)
    return [
        one if reason is None else reason
        for one, reason in zip(found.records.to_pylist(), found.reasons.to_pylist(), strict=True)
    ]


def test_columns_renamed_cast_and_computed() -> None:
    """The list renames, casts, computes, and leaves out columns."""
    text = """id AS n, price::DECIMAL(10, 2) AS price, CAST(ts AS DATE) AS day, s.f AS f, -- a comment
        list_transform(tags, lambda x: lower(x)) AS tags, sha256(Price)[1:4] AS h, 'x' AS source"""
    digest = hashlib.sha256(b"1.5").hexdigest()[:4]
    expected = {"n": 1, "price": Decimal("1.50"), "day": date(2026, 1, 2), "f": 3, "tags": ["a"], "h": digest}
    assert select(text, RECORD, zone="Asia/Shanghai") == [{**expected, "source": "x"}]


def test_star_with_exclude_replace_and_rename() -> None:
    """A star takes all columns and supports EXCLUDE, REPLACE, and RENAME."""
    found = select("* EXCLUDE (S, tags, m) REPLACE (id + 1 AS ID)", RECORD)
    assert found == [{"id": 2, "Price": "1.5", "ts": datetime(2026, 1, 1, 20, tzinfo=UTC)}]
    [found] = select("* RENAME (price AS cost)", RECORD)
    assert list(found) == ["id", "cost", "ts", "s", "tags", "m"]


def test_times_are_the_same_moment_whatever_the_zone() -> None:
    text = "{'t': ts, 'l': [ts]} AS st, map {'a': ts} AS mm, ts + INTERVAL 1 DAY AS next"
    [found] = select(text, RECORD, zone="America/New_York")
    at = datetime(2026, 1, 1, 20, tzinfo=UTC)
    assert found == {"st": {"t": at, "l": [at]}, "mm": [("a", at)], "next": at.replace(day=2)}


TIMES = pa.schema([("id", pa.int64()), ("t", AT), ("l", pa.list_(AT))])
OTHER_DATA = "DuckDB and this Python have different data of {} for the time in {}"


@pytest.mark.parametrize("zone", ["America/Vancouver", "Africa/Casablanca", "Europe/Amsterdam", "Asia/Shanghai"])
def test_day_of_a_time_in_each_zone(zone: str) -> None:
    """A time has its own day, or is bad if DuckDB and Python disagree about the zone."""
    texts = [
        f"{day} {time}"
        for day in ("1938-06-01", "1988-06-30", "2026-10-15", "2050-12-31")
        for time in ("00:10:00", "23:50:00")
    ]
    found = select("CAST(t AS DATE) AS d", *({"t": text} for text in texts), columns=TIMES, zone=zone)
    bad = OTHER_DATA.format(zone, "t")
    assert all(one in (bad, {"d": date.fromisoformat(text[:10])}) for one, text in zip(found, texts, strict=True))
    assert bad not in found or zone != "Asia/Shanghai"


def test_zone_data_that_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time is bad if DuckDB and Python have different data for its zone."""

    class Older(ZoneInfo):  # Shanghai had another offset at this time
        def utcoffset(self, moment: datetime | None) -> timedelta | None:
            found = super().utcoffset(moment)
            return found if moment is None or found is None or moment.year != 2026 else found + timedelta(hours=1)

    monkeypatch.setattr(selection, "ZoneInfo", Older)
    zone, text = "Asia/Shanghai", "id, CAST(t AS DATE) AS d, CAST(l[1] AS VARCHAR) AS s"
    records = (
        {"id": 1, "t": "2026-01-01 12:00:00"},
        {"id": 2, "t": "2025-01-01 12:00:00"},
        {"id": 3, "l": ["2026-01-01 12:00:00"]},
        {"id": 4},
    )
    assert select(text, *records, columns=TIMES, zone=zone) == [
        OTHER_DATA.format(zone, "t"),
        {"id": 2, "d": date(2025, 1, 1), "s": None},
        OTHER_DATA.format(zone, "l"),
        {"id": 4, "d": None, "s": None},
    ]
    assert select("* REPLACE (CAST(t AS DATE) AS t)", records[0], columns=TIMES, zone=zone) == [
        OTHER_DATA.format(zone, "t")
    ]
    made = select("id, '2026-01-01 12:00:00'::TIMESTAMPTZ AS made", {"id": 1}, columns=TIMES, zone=zone)
    assert made == [OTHER_DATA.format(zone, "made")]
    assert select("id, t AS at", records[0], columns=TIMES, zone=zone)[0]["id"] == 1  # DuckDB does not see it


def test_value_that_cannot_be_computed() -> None:
    """A value that cannot be computed makes only its own record bad."""
    secret = {**RECORD, "id": 2, "Price": "secret"}
    found = select("id, price::DOUBLE AS price", RECORD, b"{", secret, {"id": 3}, {**secret, "id": 4})
    reason = "price cannot be computed from Price"
    assert found == [
        {"id": 1, "price": 1.5},
        "the text is not JSON, at byte 1",
        reason,
        {"id": 3, "price": None},
        reason,
    ]
    # Where DuckDB cannot try an expression, rows are tried one by one.
    text = "id, CASE WHEN id = 2 THEN error('no ' || price) ELSE 'ok' END AS e"
    assert select(text, RECORD, secret, RECORD) == [
        {"id": 1, "e": "ok"},
        "e cannot be computed from id, Price",
        {"id": 1, "e": "ok"},
    ]


CHANGING = (
    *("now()", "Current_Date", "current_timestamp", "localtimestamp", "ago(INTERVAL 1 DAY)", "age(ts)", "random()"),
    *("DATE '2026-07-01' + CAST(price AS timetz)", "price::TIME WITH TIME ZONE"),
)


def test_duckdb_error_that_is_no_text() -> None:
    """A record is bad if DuckDB's error for its value is not valid text."""
    texts = [{"Price": "é"}, {"Price": "4a"}]
    assert select("unhex(price) AS x", *texts) == ["x cannot be computed from Price", {"x": b"J"}]


def test_numbers_that_do_not_fit_are_bad() -> None:
    found = select("id + 1 AS id", {"id": 2**63 - 1}, {"id": 5})
    assert found == ["id cannot be computed from id", {"id": 6}]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read"),
        ("id FROM record WHERE id > 1 --", "cannot be read: syntax error"),
        ("id; DROP TABLE record", "cannot be read: syntax error"),
        ("id, (", "cannot be read: syntax error"),
        ("* EXCLUDE (at, id)", "near \"at\", at 'at, id)'. Put double quotes around"),
        ("DISTINCT id", "more than a list of columns"),
        ("sum(id) AS s", "which takes or returns many records"),
        ("id, sum(id) AS s", "which takes or returns many records"),
        ("count(*) AS n", "which takes or returns many records"),
        ("unnest(tags) AS t", "unnest(), which takes or returns many records"),
        ("unnest(coalesce(tags, ['x'])) AS t", "unnest(), which takes or returns many records"),
        ("generate_subscripts(coalesce(tags, ['x']), 1) AS t", "unnest(), which takes or returns many records"),
        ("unlist(coalesce(tags, ['x'])) AS t", "unlist(), which is not a DuckDB function"),
        ("json_group_array(id) AS t", "string_agg(), which takes or returns many records"),
        *((f"{one} AS t", "whose value differs each time") for one in CHANGING),
        ("lag(id) AS t", "lag(), which takes or returns many records"),
        ("row_number() OVER () AS n", "a query, a window, a * or a #"),
        ("(SELECT 1) AS q", "a query, a window, a * or a #"),
        ("(FROM read_csv('/etc/passwd')) AS x", "a query, a window, a * or a #"),
        ("coalesce(*COLUMNS(*)) AS c", "a query, a window, a * or a #"),
        ("read_text('/etc/passwd') AS x", "select cannot compute x: Binder Error"),
        ("COLUMNS('i.*')", "without a name"),
        ("s.*", "without a name"),
        ("#1 AS x", "a query, a window, a * or a #"),
        ("$1 AS x", "a query, a window, a * or a #"),
        ("price.lower() AS x", "select has price.lower(); write lower(price)"),
        ("s.* AS x", "a query, a window, a * or a #"),
        ("id + 1", "without a name"),
        ("record AS r", "a whole record"),
        ("nosuch", "select names nosuch, but records have id, Price, ts, s, tags, m"),
        ("nosuch + 1 AS x", 'select cannot compute x: Binder Error: Referenced column "nosuch" not found'),
        ("id AS a, a + 1 AS b", 'column "a" not found'),
        ("* EXCLUDE (nosuch)", "select names nosuch"),
        ("id, ID", "gives id more than once"),
        ("id::HUGEINT AS h", "h of select is HUGEINT, a type that tables do not have; write CAST("),
        ("'101'::BIT AS b", "b of select is BIT, a type that tables do not have"),
        ("{'v': id::VARIANT} AS b", "b of select is STRUCT(v VARIANT), a type that tables do not have"),
        ("[id::HUGEINT] AS h", "h of select is HUGEINT[]"),
        ("hash(id) AS h", "h of select is UBIGINT, a type that tables do not have"),
        ("union_value(k := id) AS u", "select cannot compute u: "),
        ("ts::TIME AS t", "t of select is TIME, a type that tables do not have"),
        ("NULL AS n", "a type that tables do not have; write CAST(NULL AS TYPE)"),
    ],
)
def test_lists_of_more_than_one_record(text: str, reason: str) -> None:
    """A list that is not computed from one record alone is refused at the start."""
    with pytest.raises(ConfigurationError) as caught:
        Selection.of(text, COLUMNS, "UTC")
    assert reason in str(caught.value)


def test_duckdb_macros() -> None:
    """Expressions may call functions that are macros of DuckDB."""
    found = select("split_part(price, '.', 1) AS a, list_max(map_values(m)) AS b, if(id = 1, 'x', 'y') AS c", RECORD)
    assert [(row["a"], row["b"], row["c"]) for row in found] == [("1", 1, "x")]


def test_days_that_no_clock_shows_are_bad_on_any_level() -> None:
    days = [
        {"id": n, "Price": one}
        for n, one in enumerate(("infinity", "20000-01-01", "0044-03-15 (BC)", "2026-01-02", "9999-12-31"))
    ]
    for text, name in (
        ("id, price::DATE AS d", "d"),
        ("id, price::TIMESTAMP AS t", "t"),
        ("id, price::TIMESTAMPTZ AS t", "t"),
        ("id, [{'x': price::DATE}] AS l", "l"),
        ("id, map {'x': price::DATE} AS m", "m"),
    ):
        reason = f"{name} is a date outside the years 1 to 9999"
        found = select(text, *days)
        assert [one if isinstance(one, str) else one["id"] for one in found] == [*[reason] * 3, 3, 4], text


def test_expressions_see_no_variables() -> None:
    """An expression sees no environment variable and no variable of the process."""
    secret = "hidden"  # noqa: F841
    for text in ("getenv('HOME') AS x", "getvariable('secret')::VARCHAR || 'x' AS x", "(FROM secret) AS x"):
        try:
            assert select(text, RECORD) == [{"x": None}]
        except ConfigurationError:
            continue


def test_names_are_quoted_as_sql_quotes_them() -> None:
    assert select('id AS "we ird", price AS "a""b"', RECORD) == [{"we ird": 1, 'a"b': "1.5"}]


@pytest.mark.parametrize(
    ("path", "pattern", "count"),
    [
        ("docs/ingest.md", r'--select "(.+?)" --', 1),
        ("conf/ingest.toml", r"# select = '(.+)'", 1),
        ("docs/commands.md", r"in DuckDB's SQL: '(.+?)'", 1),
    ],
)
def test_the_lists_that_users_are_shown_are_taken(path: str, pattern: str, count: int) -> None:
    columns = pa.schema(
        [("id", pa.int64()), *((one, pa.string()) for one in ("email", "name")), *((one, AT) for one in ("seen", "at"))]
    )
    lists = re.findall(pattern, (ROOT / path).read_text().replace("\\*", "*"))
    assert len(lists) == count
    for one in lists:
        assert Selection.of(one, columns, "UTC").outputs


def test_what_is_rescued_stays() -> None:
    found = select("upper(Price) AS p", {**RECORD, "more": 1, "Price": "a"}, rescue="fields")
    assert found == [{"p": "A", "_rescued": '{"more":1}'}]


PLAIN = pa.schema([("id", pa.int64()), ("name", pa.string()), ("n", pa.string())])


def canal(kind: str, *rows: dict[str, Any], old: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"type": kind, "data": [*rows], "old": old, "es": 1, "ts": 1, "isDdl": kind == "CREATE"}


def changes(text: str, *events: dict[str, Any]) -> list[Any]:
    found = select(text, *events, columns=PLAIN, kind="canal-json", keys=("id",))
    for rows in found:
        for row in rows if isinstance(rows, list) else ():
            change = row.pop("change")
            row["is"], row["absent"] = change["operation"], change["absent"]
    return found


def test_unknown_column_of_an_update() -> None:
    """Canal's message may name some of the columns only: the table keeps the values of the others."""
    text = "id, upper(name) AS who, name || n AS both, 'x' AS x, n AS number"
    whole = {"id": "1", "name": "a", "n": "5"}
    assert changes(text, canal("INSERT", whole)) == [
        [{"id": 1, "who": "A", "both": "a5", "x": "x", "number": "5", "is": "insert", "absent": None}]
    ]
    neither = [{"id": 1, "who": None, "both": None, "x": "x", "number": None}]
    assert changes(text, canal("UPDATE", {"id": "1"}, old=[{}])) == [
        [{**neither[0], "is": "update", "absent": ["who", "both", "number"]}]
    ]
    reason = "both is also computed from n, which the update does not have"
    assert changes(text, canal("UPDATE", {"id": "1", "name": "b"}, old=[{}])) == [reason]
    # An insert without a column has null there, and so has what is computed of it.
    assert changes(text, canal("INSERT", {"id": "1", "name": "b"})) == [
        [{"id": 1, "who": "B", "both": None, "x": "x", "number": None, "is": "insert", "absent": ["both", "number"]}]
    ]


def test_struct_field_is_no_column() -> None:
    """A field of a struct does not count as the column of the same name."""
    columns = pa.schema([("id", pa.int64()), ("f", pa.int64()), ("s", pa.struct([("f", pa.int64())]))])
    selection = Selection.of("s.f AS a, record.f AS b, record.s.f AS c", columns, "UTC")
    assert [one.needs for one in selection.outputs] == [("s",), ("f",), ("s",)]


def test_deletes_need_no_values() -> None:
    """A delete or a message without a row needs no computed value."""
    text = "id, coalesce(n, '0')::INT AS n, error(name)::VARCHAR AS e"
    [[row]] = changes(text, canal("DELETE", {"id": "1"}))
    assert row == {"id": 1, "n": None, "e": None, "is": "delete", "absent": ["n", "e"]}
    [[row]] = changes(text, canal("CREATE"))
    assert row == {"id": None, "n": None, "e": None, "is": "ddl", "absent": None}


def test_one_row_that_is_bad_makes_its_message_bad() -> None:
    good, bad = {"id": "1", "name": "a", "n": "5"}, {"id": "2", "name": "a", "n": "x"}
    found = changes("id, n::INT AS n", canal("INSERT", good), canal("INSERT", good, bad), canal("INSERT", good, good))
    assert found[1] == "n cannot be computed from n"
    assert [len(rows) for rows in (found[0], found[2])] == [1, 2]
    assert [row["n"] for row in [*found[0], *found[2]]] == [5, 5, 5]


def test_a_column_of_the_database_may_be_called_change() -> None:
    columns = pa.schema([("id", pa.int64()), ("change", pa.string())])
    event = canal("INSERT", {"id": "1", "change": "mine"})
    [[row]] = select("id, upper(change) AS c, change AS d", event, columns=columns, kind="canal-json", keys=("id",))
    assert (row["c"], row["d"], row["change"]["operation"]) == ("MINE", "mine", "insert")


def test_a_key_that_moves_keeps_its_name() -> None:
    moved = canal("UPDATE", {"id": "2", "name": "a", "n": "5"}, old=[{"id": "1"}])
    [rows] = changes("id AS key, n::INT AS n", moved)
    assert [(row["key"], row["is"]) for row in rows] == [(1, "delete"), (2, "update")]


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=3)), max_size=40))
def test_each_record_has_its_own_values(values: list[Any]) -> None:
    """Against the same in Python: a number and one more of it, or the reason."""

    def expected(value: Any) -> Any:
        if isinstance(value, str):
            return "the value of id is not of type bigint"
        if value == 2**63 - 1:
            return "more cannot be computed from id"
        return {"more": None if value is None else value + 1, "id": value}

    columns = pa.schema([("id", pa.int64())])
    texts = [value if not isinstance(value, str) else f"x{value}" for value in values]
    found = select("id + 1 AS more, id", *({"id": one} for one in texts), columns=columns)
    assert [one.split(", at")[0] if isinstance(one, str) else one for one in found] == [*map(expected, values)]
