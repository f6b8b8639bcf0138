"""Who owns a partition: register, leases, heartbeats, unregister, and the codes strangers get."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from embedded_tubemq.broker.broker import BrokerSettings
from embedded_tubemq.common.codes import Code
from tests.embedded_tubemq.machines import FakeBroker
from tubeclient.wire.signature import sign

LEASE_MS = 30_000


def test_a_second_client_is_refused_while_the_lease_runs(broker: FakeBroker) -> None:
    assert broker.register().success
    answer = broker.register(client="other")
    assert (answer.success, answer.errCode, answer.currOffset) == (False, Code.PARTITION_OCCUPIED, -1)
    assert broker.register(client="other", partition=1).success
    assert broker.register(client="other", group="g2").success


def test_a_dead_owner_is_removed_by_the_first_attempt_and_replaced_by_the_second(broker: FakeBroker) -> None:
    broker.register()
    broker.now_ms += LEASE_MS
    assert broker.register(client="other").errCode == Code.PARTITION_OCCUPIED
    assert broker.register(client="other").success


def test_the_scan_frees_partitions_of_silent_owners_and_rolls_back(broker: FakeBroker) -> None:
    broker.send(b"m")
    broker.register()
    assert len(broker.fetch().messages) == 1
    broker.now_ms += LEASE_MS - 1
    broker.machine.tick(broker.now_ms)
    assert broker.register(client="other").errCode == Code.PARTITION_OCCUPIED
    broker.now_ms += 1
    broker.machine.tick(broker.now_ms)
    assert broker.fetch().errCode == Code.HB_NO_NODE
    again = broker.register(client="other")
    assert (again.success, again.currOffset) == (True, 0)


@pytest.mark.parametrize("sign_of_life", ["heartbeat", "fetch", "register"])
def test_signs_of_life_extend_the_lease(broker: FakeBroker, sign_of_life: str) -> None:
    broker.register()
    broker.now_ms += LEASE_MS - 1
    signs: dict[str, Any] = {
        "heartbeat": lambda: broker.heartbeat(0),
        "fetch": broker.fetch,
        "register": broker.register,
    }
    signs[sign_of_life]()
    broker.now_ms += LEASE_MS - 1
    broker.machine.tick(broker.now_ms)
    assert broker.commit().success


def test_heartbeats_report_partitions_that_are_lost(broker: FakeBroker) -> None:
    broker.register(0)
    assert not broker.heartbeat(0).hasPartFailure
    broker.register(1, client="other")
    answer = broker.heartbeat(0, 1, 10_000)
    assert answer.success
    assert answer.hasPartFailure
    assert list(answer.failureInfo) == ["412:1:127.0.0.1:8123#flights:1", "411:1:127.0.0.1:8123#flights:10000"]


def test_strangers_are_told_apart(broker: FakeBroker) -> None:
    assert broker.fetch().errCode == Code.HB_NO_NODE
    assert broker.unregister().errCode == Code.HB_NO_NODE
    assert broker.commit().errCode == Code.UNAUTHORIZED
    broker.register()
    assert broker.fetch(client="other").errCode == Code.DUPLICATE_PARTITION
    assert broker.unregister(client="other").errCode == Code.DUPLICATE_PARTITION
    assert broker.commit(client="other").errCode == Code.UNAUTHORIZED


def test_unregister_frees_at_once_and_commits_or_rolls_back(broker: FakeBroker) -> None:
    for body in (b"one", b"two"):
        broker.send(body)
        broker.register()
        broker.fetch()
        answer = broker.unregister(consumed=body == b"one")
        assert (answer.success, answer.currOffset) == (True, -1)
    assert broker.register(client="other").currOffset == 28


@pytest.mark.parametrize(
    "call",
    [
        lambda broker: broker.register(topicName="nowhere"),
        lambda broker: broker.fetch(topicName="nowhere"),
        lambda broker: broker.commit(topicName="nowhere"),
        lambda broker: broker.commit(partition=2),
        lambda broker: broker.send(b"m", topic="nowhere"),
        lambda broker: broker.send(b"m", partition=2),
        lambda broker: broker.send(b"m", partition=10_000),
    ],
)
def test_topics_and_partitions_that_do_not_exist_are_a_403(broker: FakeBroker, call: Any) -> None:
    answer = call(broker)
    assert (answer.success, answer.errCode) == (False, Code.FORBIDDEN)


def test_registering_a_partition_the_topic_does_not_have_is_a_500(broker: FakeBroker) -> None:
    assert broker.register(partition=2).errCode == Code.INTERNAL_SERVER_ERROR
    assert broker.fetch(partition=2).errCode == Code.HB_NO_NODE


@pytest.mark.parametrize("fields", [{"client": ""}, {"group": " "}, {"client": "c" * 1025}])
def test_blank_or_long_names_are_a_400(broker: FakeBroker, fields: dict[str, Any]) -> None:
    for call in (broker.register, broker.fetch, broker.commit, broker.heartbeat):
        assert call(**fields).errCode == Code.BAD_REQUEST


def test_a_stopped_service_answers_503_before_everything_else(broker: FakeBroker) -> None:
    broker.faults.stop_reading = True
    for answer in (broker.register(client=""), broker.fetch(client=""), broker.commit(client=""), broker.heartbeat()):
        assert answer.errCode == Code.SERVICE_UNAVAILABLE
    assert broker.send(b"m").success
    broker.faults.stop_writing = True
    assert broker.send(b"").errCode == Code.SERVICE_UNAVAILABLE


def test_a_deleted_topic_loses_readers_and_messages_but_no_offsets(broker: FakeBroker) -> None:
    broker.send(b"m")
    broker.register()
    broker.fetch()
    broker.commit()
    topic = broker.catalogue.topic("flights")
    assert topic is not None
    broker.catalogue.remove_topic("flights")
    broker.machine.forget_topic("flights")
    assert broker.fetch().errCode == Code.FORBIDDEN
    broker.catalogue.put_topic(topic)
    assert broker.fetch().errCode == Code.HB_NO_NODE
    answer = broker.register()
    assert (answer.currOffset, answer.maxOffset) == (28, 0)


def test_with_users_brokers_ask_for_the_joined_credential(tmp_path: Path) -> None:
    broker = FakeBroker(tmp_path, settings=BrokerSettings(users={"alice": "secret"}))

    def info(password: str) -> dict[str, Any]:
        signed = sign("alice", password, broker.now_ms, 7)
        return {"authInfo": {"visitAuthorizedToken": -2, "authAuthorizedToken": signed.joined}}

    assert broker.register().errCode == Code.CERTIFICATE_FAILURE
    assert broker.register(authInfo={"visitAuthorizedToken": -2, "authAuthorizedToken": "alice"}).errCode == 415
    assert broker.register(**info("wrong")).errCode == Code.CERTIFICATE_FAILURE
    assert broker.register(**info("secret")).success
    assert broker.send(b"m").errCode == Code.CERTIFICATE_FAILURE
    assert broker.send(b"m", **info("secret")).success
    # Fetches and commits carry no credential.
    assert broker.fetch().success
    broker.stores.close()
