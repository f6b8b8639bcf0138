"""Dates and times in texts: ISO 8601, patterns, zones."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tubeclient.errors import ConfigurationError
from tubeclient.records.times import (
    FarYear,
    NotATime,
    date_reader,
    local_time_reader,
    moment_reader,
    offset_of,
    tokens_for_core,
    tokens_of,
)

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


def us(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0, micros: int = 0) -> int:
    return (datetime(year, month, day, hour, minute, second, micros) - EPOCH) // MICROSECOND


DAY = us(2024, 1, 2)
TIME = us(2024, 1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-02", DAY),
        ("2024-1-2", DAY),
        ("2024-01-02 03:04", us(2024, 1, 2, 3, 4)),
        ("2024-01-02T3:4:5", TIME),
        ("2024-01-02 03:04:05.6", TIME + 600_000),
        ("2024-01-02 03:04:05.123456", TIME + 123_456),
        ("2024-01-02 03:04:05.123456999", TIME + 123_456),  # cut, as Spark does
        ("2024-01-02T03:04:05Z", TIME),
        ("2024-01-02T03:04:05 Z", TIME),
        ("2024-01-02T03:04:05UTC", TIME),
        ("2024-01-02T03:04:05 GMT", TIME),
        ("2024-01-02T03:04:05+00:00", TIME),
        ("2024-01-02T03:04:05+08", TIME - 8 * 3_600_000_000),
        ("2024-01-02T03:04:05+0830", TIME - 8 * 3_600_000_000 - 30 * 60_000_000),
        ("2024-01-02T03:04:05.5 -08:30", TIME + 500_000 + 8 * 3_600_000_000 + 30 * 60_000_000),
        ("2024-01-02T03:04:05+00:00:07", TIME - 7_000_000),
        ("2024-01-02 03:04:05 Asia/Shanghai", TIME - 8 * 3_600_000_000),
        ("2024-01-02 03:04:05America/New_York", TIME + 5 * 3_600_000_000),
        ("2024-01-02 03:04:05 Etc/GMT+8", TIME + 8 * 3_600_000_000),
        ("2024-02-29", us(2024, 2, 29)),
        ("0001-01-01", us(1, 1, 1)),
        ("9999-12-31 23:59:59.999999", us(9999, 12, 31, 23, 59, 59, 999_999)),
    ],
)
def test_times_of_iso_8601(text: str, expected: int) -> None:
    assert moment_reader(None, "UTC")(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "x", "2024", "2024-01", "2024-13-01", "2024-02-30", "2023-02-29", "2024-00-01", "2024-01-00"),
        *("24-01-02", "12024-01-02", "+2024-01-02", "-2024-01-02", "0000-00-00", "0000-00-00 00:00:00"),
        *(" 2024-01-02", "2024-01-02 ", "2024-01-02\n", "2024/01/02", "20240102", "1704164645", "2024-001-02"),
        *(
            "2024-01-02T",
            "2024-01-02t03:04",
            "2024-01-02  03:04",
            "2024-01-02 03",
            "2024-01-02 24:00",
            "2024-01-02 03:60",
        ),
        *("2024-01-02 03:04:60", "2024-01-02 03:04:05.", "2024-01-02 03:04:05,5", "2024-01-02 003:04", "2024-01-02Z"),
        *("2024-01-02 03:04+19", "2024-01-02 03:04+18:01", "2024-01-02 03:04+08:60", "2024-01-02 03:04+8"),
        *("2024-01-02 03:04+08:00:60", "2024-01-02 03:04 +08:00 ", "2024-01-02 03:04  Z", "2024-01-02 03:04z"),
        *("2024-01-02 03:04 Nowhere/Here", "2024-01-02 03:04 ../../etc/passwd", "2024-01-02 03:04 /etc/localtime"),
        *("2024-01-02 03:04 localtime", "2024-01-02 03:04 posixrules", "2024-01-02 03:04 right/UTC", "today", "now"),
        *("2024-01-02 03:04 Europe", "2024-01-02 03:04 Europe/", "2024-01-02 03:04 PST", "2024-01-02 03:04 GMT+8"),
        *("\u0662\u0660\u0662\u0664-01-02", "\uff12\uff10\uff12\uff14-01-02", "2024-01-02 03:04 " + "A" * 1_000_000),
        *("2024-01-02 03:04 Asia/Shanghai\0", "2024-01-02\0", "9" * 1_000_000),
    ],
)
def test_what_is_no_time(text: str) -> None:
    for read in (moment_reader(None, "UTC"), local_time_reader(None), date_reader(None)):
        with pytest.raises(NotATime):
            read(text)


def test_dates_and_local_times() -> None:
    """A date has no time of day, and a local time has no zone."""
    assert date_reader(None)("2024-1-02") * 86_400_000_000 == DAY
    for text in ("2024-01-02 00:00:00", "2024-01-02T00:00Z", "2024-01-02 "):
        with pytest.raises(NotATime):
            date_reader(None)(text)
    assert local_time_reader(None)("2024-01-02 03:04:05") == TIME
    for text in ("2024-01-02 03:04:05Z", "2024-01-02 03:04:05 UTC", "2024-01-02 03:04:05 +00:00"):
        with pytest.raises(NotATime):
            local_time_reader(None)(text)


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("0000-12-31", "UTC"),
        ("0000-02-29", "UTC"),  # a leap year, as Java counts
        ("0001-01-01 00:00:00+00:01", "UTC"),
        ("9999-12-31 23:59:59-00:01", "UTC"),
        ("0001-01-01", "Asia/Shanghai"),
        ("9999-12-31 23:59:59", "America/New_York"),
        ("9999-12-31 23:59:59 America/New_York", "UTC"),
    ],
)
def test_years_are_1_to_9999_in_utc(text: str, zone: str) -> None:
    with pytest.raises(FarYear):
        moment_reader(None, zone)(text)


def test_a_clock_that_was_changed() -> None:
    """What Java, Spark and Python do with a time that was not, or was twice: the offset from before the change."""
    hour = 3_600_000_000
    berlin = moment_reader(None, "Europe/Berlin")
    assert berlin("2024-03-31 01:59:59") == us(2024, 3, 31, 0, 59, 59)
    assert berlin("2024-03-31 02:30:00") == us(2024, 3, 31, 1, 30)  # there is no such time: +01:00
    assert berlin("2024-03-31 03:00:00") == us(2024, 3, 31, 1)
    assert berlin("2024-10-27 02:30:00") == us(2024, 10, 27, 0, 30)  # twice: the first one
    assert berlin("2024-10-27 03:00:00") == us(2024, 10, 27, 2)
    # A named zone in the text follows the same rules, whatever the job's own.
    assert moment_reader(None, "Asia/Tokyo")("2024-10-27 02:30:00 Europe/Berlin") == us(2024, 10, 27, 0, 30)
    assert moment_reader(None, "Asia/Shanghai")("1900-12-31 12:00:00") == us(1900, 12, 31, 12) - 29_143_000_000
    assert moment_reader(None, "Pacific/Apia")("2011-12-30 12:00:00") == us(2011, 12, 30, 12) + 10 * hour  # no such day


@given(
    st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29)),
    st.sampled_from(["Europe/Berlin", "America/St_Johns", "UTC"]),
)
def test_offsets_are_pythons(moment: datetime, name: str) -> None:
    zone = ZoneInfo(name)
    # Of a time that was twice it is the first one, which is all that a text can say.
    expected = (moment.replace(tzinfo=zone, fold=0) - EPOCH.replace(tzinfo=UTC)) // MICROSECOND
    assert moment_reader(None, name)(moment.isoformat(" ")) == expected
    local = (moment - EPOCH) // timedelta(seconds=1)
    assert offset_of(zone, local) * 1_000_000 == (moment - EPOCH) // MICROSECOND - expected


@given(st.dates())
def test_days_are_pythons(day: date) -> None:
    assert date_reader(None)(day.isoformat()) == (day - date(1970, 1, 1)).days


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("yyyy-MM-dd HH:mm:ss", "2024-01-02 03:04:05", TIME),
        ("yyyyMMddHHmmss", "20240102030405", TIME),
        ("yyyyMMddHHmmssSSS", "20240102030405678", TIME + 678_000),
        ("yyyyMMdd", "20240102", DAY),
        ("yyyyMMddHHmm", "202401020304", us(2024, 1, 2, 3, 4)),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "2024-01-02T03:04:05.678Z", TIME + 678_000),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2024-01-02T03:04:05.678+08:00", TIME + 678_000 - 8 * 3_600_000_000),
        ("yyyy-MM-dd'T'HH:mm:ssX", "2024-01-02T03:04:05Z", TIME),
        ("yyyy-MM-dd HH:mm:ss VV", "2024-01-02 03:04:05 Asia/Shanghai", TIME - 8 * 3_600_000_000),
        ("dd/MM/yyyy HH:mm:ss Z", "02/01/2024 03:04:05 -0500", TIME + 5 * 3_600_000_000),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS][ XXX]", "2024-01-02 03:04:05", TIME),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS][ XXX]", "2024-01-02 03:04:05.25", TIME + 250_000),
        ("yyyy-MM-dd HH:mm:ss[.SSSSSS][ XXX]", "2024-01-02 03:04:05 +01:00", TIME - 3_600_000_000),
        ("yyyy-MM-dd[ HH[:mm[:ss]]]", "2024-01-02 03:04", us(2024, 1, 2, 3, 4)),
        ("M/d/yyyy h:m a", "1/2/2024 12:04 AM", us(2024, 1, 2, 0, 4)),
        ("M/d/yyyy h:m a", "1/2/2024 12:04 pm", us(2024, 1, 2, 12, 4)),
        ("M/d/yyyy h:m a", "01/02/2024 3:4 PM", us(2024, 1, 2, 15, 4)),
        ("yy-MM-dd", "24-01-02", DAY),
        ("y-MM-dd", "2024-01-02", DAY),
        ("y-MM-dd", "7-01-02", us(7, 1, 2)),
        ("yyyy-MM-dd HH:mm:ss.SSSSSSSSS", "2024-01-02 03:04:05.123456789", TIME + 123_456),
        ("yyyy-MM-dd 'o''clock' HH", "2024-01-02 o'clock 03", us(2024, 1, 2, 3)),
        ("yyyy''MM''dd", "2024'01'02", DAY),
        ("yyyy年MM月dd日", "2024年01月02日", DAY),
        ("yyyy", "2024", us(2024, 1, 1)),
        ("HH:mm", "03:04", us(1970, 1, 1, 3, 4)),
    ],
)
def test_patterns(pattern: str, text: str, expected: int) -> None:
    assert moment_reader(pattern, "UTC")(text) == expected


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss", "2024-01-02T03:04:05"),
        ("yyyy-MM-dd HH:mm:ss", "2024-01-02 03:04:05.0"),
        ("yyyy-MM-dd HH:mm:ss", "2024-1-2 03:04:05"),
        ("yyyy-MM-dd HH:mm:ss", " 2024-01-02 03:04:05"),
        ("yyyy-MM-dd HH:mm:ss", "2024-01-02 03:04:05\n"),
        ("yyyyMMddHHmmss", "2024010203040"),
        ("yyyyMMddHHmmss", "202401020304055"),
        ("yyyyMMdd", "2024-01-02"),
        ("yyyyMMdd", "\u0662\u0660\u0662\u0664\u0660\u0661\u0660\u0662"),
        ("yyyy-MM-dd", "+999999999-12-31"),
        ("y-MM-dd", "999999999-12-31"),
        ("h:m a", "13:04 PM"),
        ("h:m a", "0:04 PM"),
        ("HH:mm", "24:00"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "2024-01-02T03:04:05Z"),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2024-01-02 03:04:05.1234"),
        ("yyyy-MM-dd[ HH:mm]", "2024-01-02 03"),
        ("yyyy-MM-dd X", "2024-01-02 +19:00"),
    ],
)
def test_what_is_not_of_its_pattern(pattern: str, text: str) -> None:
    with pytest.raises(NotATime):
        moment_reader(pattern, "UTC")(text)


def test_a_year_0_is_far_with_a_pattern_too() -> None:
    with pytest.raises(FarYear):
        date_reader("yyyyMMdd")("00001231")


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        ("yyyy-MM-dd'T", "it has '"),
        ("YYYY-MM-dd", "it has YYYY"),
        ("yyyy-DDD", "it has DDD"),
        ("EEE, d MMM yyyy", "it has EEE"),
        ("dd-MMM-yyyy", "it has MMM"),
        ("yyyyy-MM-dd", "it has yyyyy"),
        ("yyyy-MM-dd HH:mm:ss z", "it has z"),
        ("yyyy-MM-dd kk:mm", "it has kk"),
        ("yyyy-MM-dd HH:mm:sss", "it has sss"),
        ("yyyy-MM-dd SSSSSSSSSS", "it has SSSSSSSSSS"),
        ("yyyy-MM-dd aa", "it has aa"),
        ("yyyy-MM-dd yyyy", "it has y twice"),
        ("yyyy-MM-dd XXX VV", "it has V twice"),
        ("yyyy-MM-dd HH a", "a belongs to h"),
        ("yyyy-MM-dd HH h", "H needs neither"),
        ("yyyy-MM-dd[ HH:mm", "a bracket"),
        ("yyyy-MM-dd] HH:mm[", "a bracket"),
        ("yyyy-MM-dd{", "it has {"),
        ("yyyy#", "it has #"),
    ],
)
def test_patterns_that_are_not_read(pattern: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        moment_reader(pattern, "UTC")
    assert str(caught.value).startswith(f"timestampFormat is {pattern!r}: ")
    assert what in str(caught.value)


def test_patterns_of_dates_and_local_times() -> None:
    assert date_reader("yyyyMMdd")("20240102") * 86_400_000_000 == DAY
    at_midnight = date_reader("yyyy-MM-dd HH:mm:ss")
    assert at_midnight("2024-01-02 00:00:00") * 86_400_000_000 == DAY
    with pytest.raises(NotATime):
        at_midnight("2024-01-02 00:00:01")
    assert local_time_reader("yyyyMMddHHmmss")("20240102030405") == TIME
    with pytest.raises(ConfigurationError, match="dateFormat is 'yyyy-MM-dd XXX', which has a zone"):
        date_reader("yyyy-MM-dd XXX")
    with pytest.raises(ConfigurationError, match="timestampNTZFormat is 'yyyy-MM-dd VV', which has a zone"):
        local_time_reader("yyyy-MM-dd VV")
    with pytest.raises(ConfigurationError, match="'Nowhere' is not a time zone"):
        moment_reader(None, "Nowhere")


@given(st.text("yMdHhamsSXxZVT'[] -:.#{z\0\\n", max_size=12), st.text("0123456789-:. TZAP+", max_size=20))
def test_any_pattern_is_read_or_refused(pattern: str, text: str) -> None:
    try:
        read = moment_reader(pattern, "Europe/Berlin")
    except ConfigurationError:
        return
    with suppress(NotATime, FarYear):
        read(text)


def test_tokens() -> None:
    tokens = ["/", ("d", 1, 2), "x"]
    assert tokens_of("/d'x'", "dateFormat") == tokens_for_core("/d'x'", "dateFormat") == tokens
    # Whatever the core would make of these, it has to leave to the plain code.
    for pattern in ("yyyy[-MM]", "yyyy X", "h a", "yy"):
        assert tokens_for_core(pattern, "dateFormat") == [("X", 1, 1)]


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_not(text: str) -> None:
    for read in (moment_reader(None, "Asia/Kathmandu"), local_time_reader("yyyy[-MM]"), date_reader(None)):
        with suppress(NotATime, FarYear):
            read(text)
