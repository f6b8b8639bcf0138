"""JSON as it was written: the grammar, what goes beyond a bound, and places."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient.records.fault import BadRecord
from tubeclient.records.json_text import (
    MOST_DEPTH,
    MOST_DIGITS,
    MOST_FIELDS,
    MOST_NAME,
    STRICT,
    Node,
    fields_of,
    parse_object,
    parse_value,
    syntax_of,
)

SPARK = syntax_of({})


def value_of(node: Node) -> Any:
    """A node as Python's json has it; numbers are their texts."""
    if node.kind == "object":
        return {name: value_of(one) for name, one in node.value}
    return [value_of(one) for one in node.value] if node.kind == "list" else node.value


def fault(text: str, options: dict[str, str] | None = None) -> tuple[str, int | None]:
    with pytest.raises(BadRecord) as caught:
        parse_object(text, syntax_of(options or {}))
    return caught.value.reason, caught.value.pos


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_pythons_json_writes_is_read(document: dict[str, Any], is_ascii: bool, indent: Any) -> None:
    text = json.dumps(document, ensure_ascii=is_ascii, indent=indent)
    expected = json.loads(text, parse_int=str, parse_float=str)
    for syntax in (SPARK, STRICT):
        assert value_of(parse_object(text, syntax)) == expected


@given(st.text('{}[]",:\\ux0189abdDeE+-.truefalsn \n\0\ud83d\ude00', max_size=40).map(lambda text: '{"a":' + text))
def test_what_python_refuses_is_refused(text: str) -> None:
    """But duplicate names, half surrogate pairs and long numbers, all of which Python's json takes."""
    try:
        found = value_of(parse_object(text, STRICT))
    except BadRecord:
        found = None
    try:
        expected = json.loads(text, parse_int=str, parse_float=str, parse_constant=lambda word: 1 / 0)
    except (ValueError, ZeroDivisionError):
        expected = None
    if found is None and expected is not None:
        assert "\\ud" in repr(expected)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("the text is not JSON", 0)),
        ("  ", ("the text is not JSON", 2)),
        ("x", ("the text is not JSON", 0)),
        ("{", ("the text is not JSON", 1)),
        ('{"a"', ("the text is not JSON", 1)),
        ('{"a":', ("the text is not JSON", 5)),
        ('{"a":1', ("the text is not JSON", 6)),
        ('{"a":1,}', ("the text is not JSON", 7)),
        ('{"a":1]', ("the text is not JSON", 6)),
        ('{"a":[1}', ("the text is not JSON", 7)),
        ('{"a":[1,]}', ("the text is not JSON", 8)),
        ('{"a":[,1]}', ("the text is not JSON", 6)),
        ('{,"a":1}', ("the text is not JSON", 1)),
        ('{"a" 1}', ("the text is not JSON", 1)),
        ('{"a":01}', ("the text is not JSON", 6)),
        ('{"a":1.}', ("the text is not JSON", 6)),
        ('{"a":.5}', ("the text is not JSON", 5)),
        ('{"a":+1}', ("the text is not JSON", 5)),
        ('{"a":1e}', ("the text is not JSON", 6)),
        ('{"a":0x1}', ("the text is not JSON", 6)),
        ('{"a":nul}', ("the text is not JSON", 5)),
        ('{"a":truex}', ("the text is not JSON", 9)),
        ('{"a":True}', ("the text is not JSON", 5)),
        ('{"a":"\t"}', ("the text is not JSON", 5)),
        ('{"a":"\\x"}', ("the text is not JSON", 5)),
        ('{"a":"\\u12"}', ("the text is not JSON", 5)),
        ('{"a":"\\u00e\u0661"}', ("the text is not JSON", 5)),  # a digit, but no hexadecimal one
        ('{"a":\u0661}', ("the text is not JSON", 5)),
        ('{"a":\u00a01}', ("the text is not JSON", 5)),  # no space of JSON's
        ('{"a":1}\0', ("something follows the JSON object", 7)),
        ('{"a":1} {"a":2}', ("something follows the JSON object", 8)),
        ('{"a":1},', ("something follows the JSON object", 7)),
        ("5", ("the text is not a JSON object", 0)),
        (' [{"a":1}]', ("the text is not a JSON object", 1)),
        ("null", ("the text is not a JSON object", 0)),
        ('null],"list":[{"id":2}', ("the text is not a JSON object", 0)),
        ('],"list":[{"id":2}', ("the text is not JSON", 0)),
        ('{"a":"\\ud83d"}', ("a text has half a surrogate pair", 6)),
        ('{"a":"x\\ude00"}', ("a text has half a surrogate pair", 7)),
        ('{"a":"\\ud83d\\ud83d\\ude00"}', ("a text has half a surrogate pair", 6)),
        ('{"a":"\\ud83dx\\ude00"}', ("a text has half a surrogate pair", 6)),
        ('{"\\ud83d":1}', ("a text has half a surrogate pair", 2)),
    ],
)
def test_faults_have_their_place(text: str, expected: tuple[str, int]) -> None:
    assert fault(text) == expected


def test_texts_have_their_characters() -> None:
    text = r'{"a":"\u0041\"\\\/\b\f\n\r\t\u0000\uD83D\ude00' + "\u2028\x7f" + r'\\u0041"}'
    assert value_of(parse_object(text, STRICT)) == {"a": 'A"\\/\b\f\n\r\t\0😀\u2028\x7f\\u0041'}


def test_nodes_say_what_was_written() -> None:
    text = ' { "a" : [ 1.50 , "x\\n" ] , "b":{ } }'
    whole = parse_object(text, SPARK)
    fields = fields_of(whole)
    one, other = fields["a"].value
    assert [text[node.start : node.end] for node in (whole, fields["a"], one, other, fields["b"])] == [
        text.strip(),
        '[ 1.50 , "x\\n" ]',
        "1.50",
        '"x\\n"',
        "{ }",
    ]


def test_a_name_that_is_there_twice() -> None:
    text = '{"a":1,"b":2,"\\u0061":3}'
    with pytest.raises(BadRecord, match=r"^a appears twice$") as caught:
        fields_of(parse_object(text, SPARK))
    assert caught.value.pos == text.index("3")
    with pytest.raises(BadRecord, match=r"^x\.a appears twice$"):
        fields_of(parse_object(text, SPARK), "x")


def test_names_that_nobody_asks_for_may_be_there_twice() -> None:
    node = parse_object('{"a":1,"b":2,"b":{"c":1,"c":2}}', SPARK, {"a": False})
    assert value_of(node) == {"a": "1"}
    assert len(node.value) == 1


def test_only_what_is_wanted_is_kept() -> None:
    text = '{"a":[1,[2]],"b":{"c":1,"d":2},"e":{"f":"\\ud83d"},"g":[{"h":1,"i":2}]}'
    node = parse_object(text, SPARK, {"a": False, "b": {"d": False}, "e": False, "g": {"h": False}})
    assert value_of(node) == {"a": [], "b": {"d": "2"}, "e": {}, "g": [{"h": "1"}]}
    assert text[fields_of(node)["a"].start : fields_of(node)["a"].end] == "[1,[2]]"


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
@pytest.mark.parametrize("wanted", [True, False])
def test_depth(opening: str, closing: str, wanted: bool) -> None:
    """A bomb of a million brackets takes neither Python's stack nor a tree."""
    levels = opening.count("[") + opening.count("{")
    most = (MOST_DEPTH - 1) // levels
    inner = "1" if "{" in opening else ""
    parse_object('{"x":' + opening * most + inner + closing * most + "}", SPARK, {"x": wanted})
    for bomb in (opening * 1_000_000, opening * 1_000_000 + closing * 1_000_000):
        with pytest.raises(BadRecord, match="deeper than 500 levels") as caught:
            parse_object('{"x":' + bomb + "}", SPARK, {"x": wanted})
        assert caught.value.pos is not None
        assert caught.value.pos < 5_000


def test_bounds() -> None:
    long = "1" * MOST_DIGITS
    assert value_of(parse_object(f'{{"a":{long}}}', SPARK)) == {"a": long}
    for number in (long + "1", "1" * 1_000_000, "-" + long, "1e" + long):
        assert fault(f'{{"a":{number}}}') == ("a number has more than 1000 characters", 5)
        with pytest.raises(BadRecord, match="1000 characters"):
            parse_object(f'{{"a":{number}}}', SPARK, {})
    name = "n" * MOST_NAME
    assert value_of(parse_object(f'{{"{name}":1}}', SPARK)) == {name: "1"}
    assert fault(f'{{"{name}n":1}}') == ("a name has more than 50000 characters", 2)
    assert fault(f'{{"a":{{"{"n" * (1 << 20)}":1}}}}')[0] == "a name has more than 50000 characters"
    fields = ",".join(f'"{n}":1' for n in range(MOST_FIELDS))
    assert len(parse_object(f"{{{fields}}}", SPARK).value) == MOST_FIELDS
    with pytest.raises(BadRecord, match="100000 fields"):
        parse_object(f'{{{fields},"x":1}}', SPARK, {"a": False})


def test_what_nobody_asks_for_takes_no_memory() -> None:
    text = '{"x":[' + "1," * 20_000 + '1],"a":1}'
    tracemalloc.start()
    try:
        parse_object(text, SPARK, {"a": False})
        assert tracemalloc.get_traced_memory()[1] < len(text) // 2
    finally:
        tracemalloc.stop()


def test_words_for_numbers() -> None:
    words = ["NaN", "Infinity", "-Infinity", "+Infinity", "INF", "-INF", "+INF"]
    text = f'{{"a":[{",".join(words)}]}}'
    assert value_of(parse_object(text, SPARK)) == {"a": words}
    assert fault(text, {"allowNonNumericNumbers": "false"}) == ("the text is not JSON", 6)
    for wrong in ("-NaN", "nan", "Inf", "infinity", "NaNx"):
        assert fault(f'{{"a":{wrong}}}')[0] == "the text is not JSON"


def test_options() -> None:
    cases: list[tuple[str, str, Any]] = [
        ("allowSingleQuotes", """{'a':'it\\'s "x"',"b":'\\n'}""", {"a": 'it\'s "x"', "b": "\n"}),
        ("allowUnquotedFieldNames", '{a:1,$b_2:2,"c":3}', {"a": "1", "$b_2": "2", "c": "3"}),
        ("allowNumericLeadingZeros", '{"a":007,"b":-00.5}', {"a": "007", "b": "-00.5"}),
        ("allowUnquotedControlChars", '{"a":"\t\0\n"}', {"a": "\t\0\n"}),
        ("allowComments", '/* " */ {"a": // }\n 1 /**/ , "b":[ /* ] */ ]}// end', {"a": "1", "b": []}),
    ]
    for name, text, expected in cases:
        assert value_of(parse_object(text, syntax_of({name: "TRUE"}))) == expected
        assert fault(text, {name: "false"})[0] == "the text is not JSON"
    assert value_of(parse_object("{'a':1}", SPARK)) == {"a": "1"}
    assert fault("{'a\":1}")[0] == "the text is not JSON"
    with pytest.raises(ConfigurationError, match="allowComments is 'yes'; write true or false"):
        syntax_of({"allowComments": "yes"})


@pytest.mark.parametrize("bomb", ["/*" * 100_000, "//" * 100_000, "/* */" * 100_000, " " * 300_000, "'" * 300_000])
def test_space_and_comments_without_an_end(bomb: str) -> None:
    assert fault('{"a":' + bomb, {"allowComments": "true"})[0] == "the text is not JSON"


def test_a_value_within_a_text() -> None:
    text = '{"v": [NaN] , "w": [1, 2] x'
    assert value_of(parse_value(text, text.index("[1"), STRICT)) == ["1", "2"]
    with pytest.raises(BadRecord):
        parse_value(text, text.index("[N"), STRICT)
