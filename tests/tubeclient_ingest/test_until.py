"""`--until`: a backfill that ends where it should, however often it is started and whatever comes in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from embedded_tubemq.storage.store import NewMessage
from tests.tubeclient_ingest.bench import KEYS, Bench
from tests.tubeclient_ingest.lake import each_commit
from tubeclient.errors import ConfigurationError
from tubeclient.wire.payload import encode_attributes, encode_payload
from tubeclient_ingest.commits.record import SinkRecord
from tubeclient_ingest.job import IngestFailed

pytestmark = pytest.mark.spark

UNTIL = "2024-01-02T03:05:30Z"


def send(bench: Bench, count: int, minute: str, *, stores: int = 2) -> None:
    """Numbered messages of that minute, in all stores or in the first."""
    numbers = range(bench.sent, bench.sent + count)
    bench.sent += count
    sent = [encode_payload(str(n).encode(), encode_attributes({}, "", minute)) for n in numbers]
    bench.tube.load("clicks", [NewMessage(10_000 * (n % stores), *one) for n, one in zip(numbers, sent, strict=True)])


def killed(bench: Bench, after: int, **settings: Any) -> None:
    """A run that dies before its round of this number; messages come in before each."""

    def die(_: Any, record: SinkRecord | None, commit: Callable[[], None]) -> None:
        assert record is not None
        send(bench, 10, "202401020310")
        if record.sequence > after + 1:  # the first commit has the beginning
            raise KeyboardInterrupt
        commit()

    with each_commit(die), pytest.raises(KeyboardInterrupt):
        bench.run(**settings)


@pytest.mark.parametrize("by_time", [True, False])
def test_killed_backfill(bench: Bench, by_time: bool) -> None:
    """The second store has no message so late at first: it ends at what is there."""
    send(bench, 40, "202401020304")
    send(bench, 10, "202401020305", stores=1)
    until = UNTIL if by_time else json.dumps({str(KEYS[0]): 28 * 20, str(KEYS[1]): 28 * 20})
    settings: dict[str, Any] = {"until": until, "max_offsets_per_trigger": 20}
    killed(bench, 1, **settings)
    send(bench, 10, "202401020311")
    assert bench.rows(**settings) == 20
    assert bench.repeated_or_missing() == dict.fromkeys(range(40, bench.sent), 0)
    assert bench.table_positions() == dict.fromkeys(KEYS, 28 * 20)
    version = DeltaTable(bench.settings.target).version()
    assert bench.rows(**settings) == 0
    assert bench.said[-1] == f"nothing to read: the group is past until {until}"
    assert DeltaTable(bench.settings.target).version() == version
    # What came after it is there for a run without an end.
    assert bench.rows() == bench.sent - 40
    assert bench.repeated_or_missing() == {}


def test_ends_that_do_not_fit_write_nothing(bench: Bench) -> None:
    send(bench, 20, "202401020304")
    known = {str(key): 28 * 10 for key in KEYS}
    for until, said in (
        ({**known, "1:clicks:7": 28}, "until names 1:clicks:7"),
        ({**known, str(KEYS[0]): 28 * 11}, "whose data ends at 280"),
        ({str(KEYS[0]): 28}, f"until has no entry for {KEYS[1]}"),
    ):
        with pytest.raises((ConfigurationError, IngestFailed), match=said):
            bench.run(until=json.dumps(until))
    start = json.dumps(known)
    with pytest.raises((ConfigurationError, IngestFailed), match=r"until has 252 .* which begins at 280"):
        bench.run(until=json.dumps(dict.fromkeys(known, 28 * 9)), starting_offsets=start)
    assert bench.repeated_or_missing() == dict.fromkeys(range(20), 0)
    assert all(not one.get("userMetadata") for one in DeltaTable(bench.settings.target).history())


def test_finished_backfill_after_expiry(bench: Bench) -> None:
    """A finished backfill has nothing to read after the brokers drop its messages."""
    send(bench, 20, "202401020304")
    until = json.dumps({str(key): 28 * 10 for key in KEYS})
    assert bench.rows(until=until) == 20
    send(bench, 20, "202401020304")
    for store in (0, 1):
        bench.tube.expire("clicks", 28 * 15, store_id=store)
    assert bench.rows(until=until) == 0
    assert bench.said[-1].startswith("nothing to read: the group is past until")
