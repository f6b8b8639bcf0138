"""The embedded servers' web calls have the fields of Apache's: of every call that Admin makes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.apache.both import Site, apache_site, embedded_site, offsets_of, send_each
from tests.apache.server import ApacheTubeMQ
from tests.waiting import wait_for
from tubeclient import Admin, GroupMembership, PartitionKey, RemoteError, assign
from tubeclient.net.http import query_broker, query_master

pytestmark = pytest.mark.apache

KEY = PartitionKey(1, "admin_single", 0)

# Fields that the master writes only while a broker is taking something over.
PASSING = {"stepOp"}

Shape = Any
"""Of what an answer holds: the names of fields with the types below them; of a list, the kinds of its items."""


def shape(value: object) -> Shape:
    if isinstance(value, dict):
        return {name: shape(item) for name, item in sorted(value.items()) if name not in PASSING}
    if isinstance(value, list):
        return sorted({json.dumps(shape(item)) for item in value})
    return type(value).__name__


def shapes(site: Site) -> dict[str, Shape]:
    """The shape of the answer to each call, while a group is online and has a position."""
    admin = Admin(site.settings)
    send_each(site, "admin_single", 1)
    send_each(site, "admin_shared", 1)
    admin.set_offsets("parity", {KEY: 0})
    offsets_of(admin, "parity", positions=1)
    with closing(GroupMembership(site.settings, "parity", [KEY.topic], 2)) as membership:
        plan = assign("modulo", membership.join().partitions(), 2)
        membership.report({0: plan[0], 1: []})
        wait_for(lambda: any(member.partitions for member in admin.group("parity").members), "the report")
        return {name: shape(answer) for name, answer in _answers(site, admin)}


def _answers(site: Site, admin: Admin) -> Iterator[tuple[str, object]]:
    def master(method: str, **parameters: str) -> tuple[str, object]:
        return f"{method} {sorted(parameters)}", _said(query_master, site.master_web_address, method, parameters)

    def broker(method: str, **parameters: str) -> tuple[str, object]:
        return f"{method} {parameters}", _said(query_broker, web, method, parameters)

    web = admin.brokers()[0].web_address
    changes = {"confModAuthToken": site.token, "modifyUser": "tests"}
    yield master("admin_query_broker_run_status")
    yield master("admin_query_topic_info", topicName="admin_single,admin_shared")
    yield master("admin_query_topic_info", topic="no_such_topic")
    yield master("admin_query_sub_info", groupName="parity")
    yield master("admin_query_sub_info", group="parity_unknown")
    yield master("admin_query_consume_group_detail", groupName="parity")
    yield master("admin_query_consume_group_detail", group="parity_unknown")
    yield master("admin_reload_broker_configure", brokerId="99", **changes)
    yield master("admin_reload_broker_configure", brokerId="99", modifyUser="tests")
    yield master("admin_add_new_topic_record", topicName="admin_single", brokerId="1,2", createUser="tests", **changes)
    yield master("admin_add_new_topic_record", topicName="admin_single", brokerId="1,2", createUser="tests")
    yield master("admin_no_such_call")
    yield broker("admin_query_pubinfo", topicName="admin_single")
    yield broker("admin_query_pubinfo", topic="no_such_topic")
    yield broker("admin_query_offset", groupName="parity")
    yield broker("admin_query_offset", group="parity", topic="admin_shared")
    yield broker("admin_query_offset", group="parity_unknown")
    position = {"topicName": KEY.topic, "partitionId": "0", "modifyUser": "tests"}
    yield broker("admin_manual_set_current_offset", groupName="parity", manualOffset="0", **position)
    yield broker(
        "admin_manual_set_current_offset", group="parity", offset="9999972", topic=KEY.topic, pid="0", mur="me"
    )
    yield broker("admin_manual_set_current_offset", groupName="parity", **position)
    wanted = json.dumps({str(KEY): 28, "2:elsewhere:0": 0})
    yield broker("admin_set_offset", groupName="parity", manualSet="true", offsetJsonInfo=wanted, modifyUser="tests")
    yield broker("admin_clone_offset", sourceGroupName="parity", targetGroupName="parity_too", modifyUser="tests")
    yield broker("admin_clone_offset", srcGroup="parity", tgtGroup="parity_too", topic="admin_shared", mur="tests")
    yield broker("admin_clone_offset", srcGroup="parity_unknown", tgtGroup="parity_too", mur="tests")
    yield broker("admin_rmv_offset", groupName="parity_unknown", modifyUser="tests")
    yield broker("admin_rmv_offset", groupName="parity", topicName=KEY.topic, modifyUser="tests")
    yield broker("admin_rmv_offset", groupName="parity")
    yield broker("admin_no_such_call")


def _said(ask: Callable[..., dict[str, Any]], address: str, method: str, parameters: dict[str, str]) -> object:
    """The answer; of a refusal only that it is one, as its words are the server's own."""
    try:
        return ask(address, method, 5_000, **parameters)
    except RemoteError as error:
        return type(error).__name__


def test_the_same_calls_give_the_same_fields(apache: ApacheTubeMQ, tmp_path: Path) -> None:
    expected = shapes(apache_site(apache))
    with embedded_site(tmp_path / "tube") as embedded:
        found = shapes(embedded)
    assert len(expected) == 28  # no call hides another
    assert found == expected
