"""`tubeclient topics`, `produce` and `consume` on Apache's servers."""

from __future__ import annotations

import json

import pytest

from tests.apache.settings import MODIFY_TOKEN
from tests.tubeclient_cli.clusters import ClusterCommands
from tubeclient import ClientSettings

pytestmark = pytest.mark.apache

TOKEN = {"TUBECLIENT_MODIFY_TOKEN": MODIFY_TOKEN}
WRONG = {"TUBECLIENT_MODIFY_TOKEN": "not-the-right-one"}


def test_a_topic_from_its_creation_to_its_messages(settings: ClientSettings) -> None:
    cluster = ClusterCommands(settings)
    made = cluster.json("topics", "create", "command_line", "--stores", "2", "--wait", "0", env=TOKEN)
    brokers = len(made["brokers"])
    assert made["partitions"] == 2 * brokers
    assert "exists already" in cluster.error("topics", "create", "command_line", env=TOKEN)
    # Apache's master loads this change only after it has published the one before.
    altered = cluster.json("topics", "alter", "command_line", "--partitions", "2", env=TOKEN)
    assert (altered["loaded"], altered["partitions"]) == (True, 4 * brokers)
    wrong = cluster.error("topics", "alter", "command_line", "--partitions", "3", code=2, env=WRONG)
    assert "[AUTHENTICATION_FAILED]" in wrong
    assert WRONG["TUBECLIENT_MODIFY_TOKEN"] not in wrong
    lines = b"".join(b'{"value": "m%d", "tag": "%s"}\n' % (n, b"odd" if n % 2 else b"even") for n in range(20))
    sent = cluster.json("produce", "command_line", "--format", "json", given=lines)
    assert (sent["acknowledged"], sent["failed"]) == (20, 0)
    found = [json.loads(line) for line in cluster.text("consume", "command_line", "--json").splitlines()]
    assert sorted(one["value"] for one in found) == sorted(f"m{n}" for n in range(20))
    odd = cluster.text("consume", "command_line", "--tag", "odd").splitlines()
    assert sorted(odd) == sorted(f"m{n}" for n in range(1, 20, 2))
    stores = cluster.json("topics", "show", "command_line")["stores"]
    assert sum(store["messagesAtMost"] for store in stores.values()) == 20
