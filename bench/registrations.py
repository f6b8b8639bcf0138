"""What it costs Apache's broker to take a range over and to give it back: two requests for each range of a batch."""

from __future__ import annotations

import time
from typing import Final

from google.protobuf.message import Message

from bench.one_broker import partitions_on_one_broker
from bench.parties import BROKER, clocks, spent
from bench.results import Results, RunSettings
from bench.rounds import titled_rounds
from bench.stage import Stage
from bench.workloads import LAYOUTS, WORKLOADS
from tests.embedded_tubemq.raw_client import RawClient
from tubeclient.flows.reader import Reader
from tubeclient.identity import new_client_id
from tubeclient.wire.methods import Method

__all__ = ["CPU_KEY", "GROUP", "measure_registrations"]

GROUP: Final = "registrations"
CPU_KEY: Final = f"{GROUP}/cpu"
_SPEC: Final = Method.PARTITION_REGISTER.spec
_PAIRS: Final = 20_000
_LEAST_WARM_UPS: Final = 3


def measure_registrations(stage: Stage, results: Results, run: RunSettings) -> None:
    """The broker's CPU time for each pair of requests, and how many pairs one connection has answered in a second."""
    layout = LAYOUTS[1]
    topic = f"{GROUP}_{layout.key}"
    stage.empty_topic(topic, layout, WORKLOADS[0])
    address, keys = partitions_on_one_broker(stage.settings, topic)
    pairs = max(len(keys), round(_PAIRS * run.scale))
    cpu: list[float] = []
    rates: list[float] = []
    reader = Reader(GROUP, new_client_id(GROUP, "raw"))
    with RawClient(address) as broker:

        def ask(request: Message) -> None:
            serial = broker.send_body(_SPEC.service, _SPEC.method_id, request.SerializeToString())
            answer = broker.answer(Method.PARTITION_REGISTER, serial)
            if not answer.success:
                raise RuntimeError(f"{address}: {answer.errCode} {answer.errMsg}")

        for title, counts in titled_rounds(max(run.warm_ups, _LEAST_WARM_UPS), run.rounds):
            before, began = clocks(), time.perf_counter()
            for number in range(pairs):
                key = keys[number % len(keys)]
                ask(reader.register(key, 0))
                ask(reader.unregister(key))
            seconds = time.perf_counter() - began
            used = spent(before, clocks(), pairs)[BROKER].total
            stage.say(f"{title}: {pairs / seconds:,.0f} a second, {used:.0f} µs of the broker's CPU time each")
            if counts:
                cpu.append(used)
                rates.append(pairs / seconds)
    what = "a partition taken over and given back, Apache's broker"
    results.add(CPU_KEY, what, "µs of CPU time", cpu)
    results.add(f"{GROUP}/rate", f"{what}, one connection", "a second", rates)
