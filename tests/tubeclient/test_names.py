"""Names of groups: those that are read under are nobody's own."""

from __future__ import annotations

import pytest

from tubeclient import ClientBalanceConsumer, ClientSettings, PullConsumer, reader_groups_of
from tubeclient.names import why_no_group


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
