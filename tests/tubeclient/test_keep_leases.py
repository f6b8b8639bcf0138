"""Who keeps leases ends with the last partition."""

from __future__ import annotations

import random

import pytest

from tubeclient.flows.keep_leases import keep_leases
from tubeclient.flows.read_plan import ReadPlan
from tubeclient.flows.registrar import Registrar
from tubeclient.flows.registrations import Registrations
from tubeclient.keys import BrokerInfo


def test_a_keeper_that_starts_after_the_last_partition_went_does_not_wait() -> None:
    """Closing waits for it, and its signal has come already."""
    registrations = Registrations(Registrar(ReadPlan(group="etl", client_id="etl_1", filters={}), random.Random(1)))
    line = registrations.holdings.line(BrokerInfo(1, "127.0.0.1", 8123))
    line.kept = True
    with pytest.raises(StopIteration):
        next(keep_leases(registrations, line))
    assert not line.kept
