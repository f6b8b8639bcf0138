"""Message payloads: golden bytes, checksums, hashes, and whatever a broker may hand out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire.fuzz import FUZZ, damaged, outcome
from tubeclient.errors import ConfigurationError, CorruptMessage
from tubeclient.wire.payload import (
    ATTRIBUTE_FLAG,
    TAG_KEY,
    TIME_KEY,
    checksum,
    decode_payload,
    encode_attributes,
    encode_payload,
    java_string_hash,
    parse_attributes,
)


def test_a_payload_with_attributes() -> None:
    payload, flag = encode_payload(b"body", "k=v,x=\u00e9")
    assert payload.hex(" ") == "00 00 00 08 6b 3d 76 2c 78 3d c3 a9 62 6f 64 79"
    assert flag == 1
    assert decode_payload(payload, flag) == (b"body", "k=v,x=\u00e9")


def test_a_payload_without_attributes_is_the_body_and_its_flag_is_not_set() -> None:
    assert encode_payload(b"body") == (b"body", 0)
    assert decode_payload(b"body", 0) == (b"body", "")


def test_other_bits_of_the_flag_mean_nothing() -> None:
    assert decode_payload(b"body", 0b110) == (b"body", "")
    assert decode_payload(bytes.fromhex("00000001") + b"abody", 0b111) == (b"body", "a")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes.fromhex("FFFFFFFF"),  # -1
        bytes.fromhex("80000000") + b"x",
        bytes.fromhex("00000003") + b"ab",
        bytes.fromhex("00000002 C328"),  # not UTF-8
        bytes.fromhex("00000001 C3A9"),  # half a character
    ],
)
def test_payloads_whose_inside_does_not_fit_are_corrupt(payload: bytes) -> None:
    with pytest.raises(CorruptMessage):
        decode_payload(payload, ATTRIBUTE_FLAG)


def test_the_checksum_is_crc_32_without_the_sign_bit() -> None:
    assert checksum(b"123456789") == 0x4BF43926  # CRC-32's check value 0xCBF43926
    assert checksum(b"") == 0
    assert checksum(b"a") == 0x68B7BE43  # 0xE8B7BE43


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Aa", 2112),
        ("BB", 2112),
        ("polygenelubricants", -2147483648),
        ("\u00e9", 233),
        ("\u4e2d\u6587", 31 * 0x4E2D + 0x6587),
        ("\U0001f600", 31 * 0xD83D + 0xDE00),  # two UTF-16 units
        ("\ud83d", 0xD83D),  # half a pair is a unit like any other in Java
    ],
)
def test_java_string_hash(text: str, value: int) -> None:
    assert java_string_hash(text) == value


def test_attribute_text() -> None:
    assert encode_attributes({}) == ""
    assert encode_attributes({"b": "2", "a": ""}) == "b=2,a="
    text = encode_attributes({"k": "v"}, tag="click", time="202608191200")
    assert text == "$msgType$=click,$msgTime$=202608191200,k=v"
    assert parse_attributes(text) == {TAG_KEY: "click", TIME_KEY: "202608191200", "k": "v"}


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("", {}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1,a=2", {"a": "1"}),
        ("a=,a=1,b,a=2,a", {"a": "1", "b": ""}),
        ("$msgType$=a,k=1,$msgType$=b", {TAG_KEY: "b", "k": "1"}),
        ("$msgType$=a,$msgTime$=1,$msgType$=,$msgTime$", {TAG_KEY: "a", TIME_KEY: "1"}),
        ("$msgType$,$msgType$=", {TAG_KEY: ""}),
    ],
)
def test_odd_attribute_texts_are_read(text: str, attributes: dict[str, str]) -> None:
    assert parse_attributes(text) == attributes


@pytest.mark.parametrize(
    ("attributes", "tag", "time"),
    [
        ({"": "v"}, "", ""),
        ({TAG_KEY: "v"}, "", ""),
        ({"a,b": "v"}, "", ""),
        ({"a": "v,w"}, "", ""),
        ({"a": "\ud800"}, "", ""),
        ({}, "a,b=c", ""),  # would add an attribute
        ({}, "", "2026,x=y"),
    ],
)
def test_attributes_no_reader_would_take_apart_are_refused(attributes: dict[str, str], tag: str, time: str) -> None:
    with pytest.raises(ConfigurationError):
        encode_attributes(attributes, tag, time)


words = st.text(st.characters(exclude_characters=",=", exclude_categories=["Cs"]), min_size=1, max_size=10)
attribute_maps = st.dictionaries(
    words.filter(lambda key: key not in (TAG_KEY, TIME_KEY)), words | st.just(""), max_size=5
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@given(attribute_maps, words | st.just(""), words | st.just(""))
@FUZZ
def test_attributes_round_trip(attributes: dict[str, str], tag: str, time: str) -> None:
    expected = {key: value for key, value in ((TAG_KEY, tag), (TIME_KEY, time)) if value} | attributes
    assert parse_attributes(encode_attributes(attributes, tag, time)) == expected


@given(st.binary(max_size=60) | damaged(st.builds(lambda b, t: encode_payload(b, t)[0], st.binary(), texts)))
@FUZZ
def test_any_payload_is_taken_apart_or_corrupt(payload: bytes) -> None:
    found = outcome(lambda: decode_payload(payload, ATTRIBUTE_FLAG), CorruptMessage)
    if isinstance(found, tuple):
        body, text = found
        assert len(payload) == 4 + len(text.encode()) + len(body)
    else:
        assert found is CorruptMessage
