"""Schemas that are surely wrong are told without Spark, and what Spark takes is never refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_source.typed.schema_text import schema_fault

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WRONG = [
    ("id BIGNUM", "column id has the type BIGNUM, which Spark does not have; did you mean BIGINT?"),
    ("id INT, name Strng NOT NULL", "column name has the type Strng, which Spark does not have; did you mean STRING?"),
    ("id xyzzy", "column id has the type xyzzy, which Spark does not have"),
    ("a: ARRAY<STRNG>", "column a has the type STRNG, which"),
    ("a STRUCT<b: MAP<STRING, INTT>>", "column b has the type INTT, which"),
    ("id, name STRING", "column id has no type"),
    ("id INT, name", "column name has no type"),
    ("a STRUCT<b>, c INT", "column b has no type"),
    ("id INT,, name STRING", "there is no column after the comma behind id"),
    ("id INT, name STRING,", "there is no column after the comma behind name"),
    ("a STRUCT<b INT,>, c INT", "there is no column after the comma behind b"),
    ("id INT name STRING", "there is no comma between column id and name STRING"),
    ("a DECIMAL(10, 2) b INT", "there is no comma between column a and b INT"),
    ("a ARRAY<INT", "a < in the type of column a has no >"),
    ("a STRUCT<b INT, c INT", "a < in the type of column a has no >"),
    ("a MAP<INT, ARRAY<INT>, b INT", "a < in the type of column a has no >"),
    ("a ARRAY<INT>>", "there is a > without its <"),
    ("a DECIMAL(10, 2, b INT", "a ( in the type of column a has no )"),
    ("a ARRAY, b INT", "the type of column a is ARRAY of nothing; write it as in ARRAY<INT>"),
    ("user-id BIGINT", "the name user-... must be in backticks, as in `a-b` INT"),
    ("a.b BIGINT", "the name a.... must be in backticks, as in `a.b` INT"),
]


@pytest.mark.parametrize(("ddl", "said"), WRONG)
def test_what_is_surely_wrong_is_said(ddl: str, said: str) -> None:
    assert (schema_fault(ddl) or "").startswith(said)


@pytest.mark.parametrize(
    "ddl",
    [
        "a: INT> -- b",
        "a INT /* b */ , c NEW_TYPE",
        "a INT COMMENT 'it''s a \\' < ( b' NOT NULL",
        "IDENTIFIER('a') INT",
        "a INT COMMENT R'\\' -- ', b",
        "a INT DEFAULT (1 < 2)",
        "a INTERVAL DAY TO SECOND",
        "STRUCT<a: INT>",
        "a " + "ARRAY<" * 5_000,
    ],
)
def test_what_is_not_sure_is_left_to_spark(ddl: str) -> None:
    assert schema_fault(ddl) is None


NAMES = st.one_of(
    st.sampled_from(
        (
            *(
                "id",
                "ID",
                "_x",
                "9a",
                "größe",
                "名前",
                "date",
                "struct",
                "array",
                "map",
                "not",
                "null",
                "interval",
                "to",
            ),
            *("string", "comment", "collate", "default", "time", "zone", "select", "`a-b`", "`a``b`", "`a,b`", "`<`"),
            *("`NO TYPE`", "` `", "order", "left", "identifier", "r", "timestamp", "with", "without", "local", "e1"),
        )
    ),
    st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True),
)
SIMPLE = st.sampled_from(
    (
        *("boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real"),
        *("double", "decimal", "dec", "numeric", "string", "binary", "date", "timestamp", "timestamp_ntz", "variant"),
        *("timestamp_ltz", "void", "interval", "decimal(10)", "decimal( 38 , 18 )", "char(3)", "character (3)", "time"),
        *(
            "varchar(3)",
            "time(6)",
            "interval year",
            "interval year to month",
            "interval day to second",
            "geometry(any)",
        ),
        *("interval hour to minute", "interval second", "string collate UTF8_LCASE", "string collate unicode_ci"),
        *("timestamp without time zone", "time(3) without time zone", "geography(4326)", "string collate `UNICODE`"),
    )
)
CASES = st.sampled_from((str.lower, str.upper, str.title))
ENDS = st.sampled_from(
    (
        "",
        "",
        " NOT NULL",
        " not  null",
        "\nNOT NULL COMMENT 'a, b'",
        " COMMENT 'it\\'s <'",
        ' comment "x y INT"',
        " ! NULL",
    )
)
GAPS = st.sampled_from((" ", "  ", "\n", "\t", " -- a comment, b <\n", "\u00a0"))


@st.composite
def columns(draw: st.DrawFn, types: st.SearchStrategy[str], colon: bool) -> str:
    found = []
    for _ in range(draw(st.integers(1, 4))):
        between = draw(st.sampled_from((": ", ":", " : ", " "))) if colon else draw(GAPS)
        found.append(draw(NAMES) + between + draw(types) + draw(ENDS))
    return (draw(GAPS).join(("", ","))).join(found)


def nested(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        types.map("ARRAY<{}>".format),
        types.map("array < {} >".format),
        st.tuples(types, types).map(lambda both: f"Map<{both[0]},{both[1]}>"),
        st.one_of(columns(types, colon=True), columns(types, colon=False)).map("STRUCT<{}>".format),
        st.just("struct<>"),
    )


TYPES = st.recursive(st.builds(lambda text, case: case(text), SIMPLE, CASES), nested, max_leaves=5)
SCHEMAS = st.builds(
    "{}{}{}".format,
    st.sampled_from(("", " ", "-- clicks\n")),
    st.one_of(columns(TYPES, colon=False), columns(TYPES, colon=True)),
    st.sampled_from(("", "", "\n", " -- end", "-- end\n")),
)
CHANGES = st.lists(
    st.tuples(st.integers(0, 300), st.sampled_from(("", "", ",", "<", ">", " ", "-", "x", "\n"))), max_size=2
)


@pytest.mark.spark
def test_what_spark_takes_is_never_refused(delta_spark: SparkSession) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    counts = {True: 0, False: 0}

    @settings(max_examples=800, deadline=None, suppress_health_check=list(HealthCheck))
    @given(SCHEMAS, CHANGES)
    def check(ddl: str, changes: list[tuple[int, str]]) -> None:
        for place, instead in changes:
            ddl = ddl[: place % len(ddl)] + instead + ddl[place % len(ddl) + 1 :] if ddl else ddl
        try:
            taken = isinstance(StructType.fromDDL(ddl), StructType)
        except (PySparkException, Py4JError):  # the second for an unknown collation
            taken = False
        fault = schema_fault(ddl)
        assert not (taken and fault), fault
        counts[taken] += 1

    # Spark also tries the text within struct<...>.
    for odd in ("a: INT> -- b", "a INT COMMENT R'\\' -- ', b"):
        assert StructType.fromDDL(odd).simpleString() == "struct<a:int>"
    check()
    assert min(counts.values()) > 100, counts


@pytest.mark.spark
def test_spark_refuses_what_is_refused_without_it(delta_spark: SparkSession) -> None:
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    for ddl, _ in WRONG:
        with pytest.raises(PySparkException):
            StructType.fromDDL(ddl)


def test_each_type_of_pyspark_has_a_name_that_is_known() -> None:
    from pyspark.sql import types

    named = [one for one in vars(types).values() if isinstance(one, type) and issubclass(one, types.AtomicType)]
    # INTERVAL DAY TO SECOND and the like.
    names = {one.typeName() for one in named if not one.__subclasses__() and "Interval" not in one.__name__}
    assert {"string", "decimal", "timestamp_ntz"} <= names
    assert [name for name in sorted(names) if schema_fault(f"a {name}")] == []
