"""Visit tokens: renewed by the master, shown by clients, checked by brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from embedded_tubemq.broker.broker import BrokerSettings
from embedded_tubemq.common.codes import Code
from embedded_tubemq.common.visit_tokens import RENEWAL_MS, VisitTokens
from tests.embedded_tubemq.machines import START_MS, FakeBroker, FakeMaster


def test_clients_get_a_token_one_renewal_after_it_was_made() -> None:
    tokens = VisitTokens(START_MS)
    given = []
    for step in range(4):
        tokens.tick(START_MS + step * RENEWAL_MS)
        given.append(tokens.for_clients - START_MS)
    assert given == [0, 0, RENEWAL_MS, 2 * RENEWAL_MS]


def test_the_last_six_tokens_are_accepted() -> None:
    tokens = VisitTokens(START_MS)
    for step in range(1, 10):
        tokens.tick(START_MS + step * RENEWAL_MS - 1)  # a little early: not yet
        tokens.tick(START_MS + step * RENEWAL_MS)
    accepted = [step for step in range(12) if tokens.accepts(START_MS + step * RENEWAL_MS)]
    assert accepted == [4, 5, 6, 7, 8, 9]
    assert not tokens.accepts(-2)


def test_tokens_of_the_master_before_a_restart_still_hold() -> None:
    tokens = VisitTokens(START_MS)
    tokens.restart(START_MS + 5)
    assert tokens.for_clients == START_MS + 5
    assert tokens.accepts(START_MS)


def test_the_master_gives_its_token_with_every_answer(master: FakeMaster) -> None:
    assert master.join().authorizedInfo.visitAuthorizedToken == START_MS
    master.now_ms += RENEWAL_MS
    assert master.join().authorizedInfo.visitAuthorizedToken == START_MS
    master.now_ms += RENEWAL_MS
    assert master.join().authorizedInfo.visitAuthorizedToken == START_MS + RENEWAL_MS
    assert master.heartbeat().authorizedInfo.visitAuthorizedToken == START_MS + RENEWAL_MS


def test_brokers_that_check_want_one_of_the_masters_tokens(tmp_path: Path) -> None:
    broker = FakeBroker(tmp_path, settings=BrokerSettings(check_visit_token=True))

    def shown(token: int) -> dict[str, Any]:
        return {"authInfo": {"visitAuthorizedToken": token}}

    for wrong in ({}, shown(-2), shown(START_MS + 1)):
        assert broker.register(**wrong).errCode == Code.CERTIFICATE_FAILURE
        assert broker.send(b"m", **wrong).errCode == Code.CERTIFICATE_FAILURE
        assert broker.heartbeat(0, **wrong).errCode == Code.CERTIFICATE_FAILURE
    assert broker.send(b"m", **shown(START_MS)).success
    assert broker.register(**shown(START_MS)).success
    assert broker.heartbeat(0, **shown(START_MS)).success
    # Fetches and commits carry no token.
    assert broker.fetch().success
    broker.stores.close()


def test_brokers_that_do_not_check_take_any(broker: FakeBroker) -> None:
    assert broker.register().success
