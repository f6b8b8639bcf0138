"""Names of groups: those that are read under are nobody's own. And names of new topics."""

from __future__ import annotations

from typing import Any

import pytest

from tubeclient import (
    Admin,
    ClientBalanceConsumer,
    ClientSettings,
    ConfigurationError,
    PullConsumer,
    reader_groups_of,
)
from tubeclient.names import new_topic_name, why_no_group


def test_a_reader_groups_name_is_no_groups_own() -> None:
    for name in (*reader_groups_of("etl"), *reader_groups_of("etl-r0"), "etl-r12"):
        assert why_no_group(name) is not None, name
    for name in ("etl", "etl-r", "-r0", "etl-r0x", "etl_r0", "etl-r-0", "r0"):
        assert why_no_group(name) is None, name


@pytest.mark.parametrize("consumer", [ClientBalanceConsumer, PullConsumer])
def test_a_consumer_of_such_a_name_is_warned(
    consumer: type[ClientBalanceConsumer | PullConsumer], caplog: pytest.LogCaptureFixture
) -> None:
    settings = ClientSettings(("127.0.0.1:1",))
    consumer(settings, "etl", ["clicks"])
    assert not caplog.records
    consumer(settings, "etl-r3", ["clicks"])
    assert "consumer_group is etl-r3, the form of a reader group: reading ranges for group etl" in caplog.text


@pytest.mark.parametrize("name", ["x<b>", "a-b", "a.b", "2x", "_x", "x", "中文", "x" * 65, "a b", None])
def test_a_topic_that_apaches_master_would_not_create_is_not_asked_for(name: Any) -> None:
    """RegexDef.TMP_STRING, and META_MAX_TOPICNAME_LENGTH."""
    admin = Admin(ClientSettings("127.0.0.1:1"), modify_token="abc")
    with pytest.raises(ConfigurationError, match=r"is not a (topic name|name for a new topic): use "):
        admin.create_topic(name)


def test_what_apaches_master_creates() -> None:
    assert [new_topic_name(name) for name in ("ab", " Clicks_2 ", "x" * 64)] == ["ab", "Clicks_2", "x" * 64]
