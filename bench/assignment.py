"""How long each strategy takes to assign many partitions to many nodes, on one core.

python -m bench.assignment --partitions 100000 --nodes 1000
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable

from tubeclient.assignment import STRATEGIES, Assignment, Hints, assign, backlog, balance
from tubeclient.keys import PartitionKey

__all__: list[str] = []

_SEED = 2024
_ROOMS = 5


def _partitions(count: int) -> list[PartitionKey]:
    """`count` partitions of 20 topics, some 100 of each topic on a broker."""
    brokers = -(-count // 2000)
    whole = [
        PartitionKey(broker_id, f"topic_{topic}", number)
        for broker_id in range(1, brokers + 1)
        for topic in range(20)
        for number in range(100)
    ]
    return sorted(whole[:count])


def _hints(keys: list[PartitionKey], nodes: int, chance: random.Random) -> Hints:
    """Hints that leave every strategy something to do: a tenth of the nodes is new, and lag is uneven."""
    return Hints(
        previous={key: index % (nodes - nodes // 10) for index, key in enumerate(keys)},
        lag={key: int(chance.lognormvariate(7, 1)) for key in keys},
        rooms={key.broker_id: f"room {key.broker_id % _ROOMS}" for key in keys},
        node_rooms={node: f"room {node % _ROOMS}" for node in range(nodes)},
        plan={key: chance.randrange(nodes) for key in keys},
    )


def _best_ms(action: Callable[[], Assignment], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        action()
        times.append((time.perf_counter() - begun) * 1000)
    return min(times)


def main() -> None:
    """Measure, and print one line for each strategy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    chance = random.Random(_SEED)
    keys = _partitions(chosen.partitions)
    shuffled = chance.sample(keys, len(keys))
    hints = _hints(keys, chosen.nodes, chance)
    print(
        f"{len(keys)} partitions to {chosen.nodes} nodes, best of {chosen.rounds} rounds, "
        f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"
    )
    print(f"{'ms':>20} {'sorted':>8} {'shuffled':>9}   partitions per node    rows, largest / mean")
    for name, strategy in STRATEGIES.items():
        alone = _best_ms(lambda strategy=strategy: strategy(keys, chosen.nodes, hints), chosen.rounds)  # type: ignore[misc]
        whole = _best_ms(lambda name=name: assign(name, shuffled, chosen.nodes, hints), chosen.rounds)  # type: ignore[misc]
        assigned = strategy(keys, chosen.nodes, hints)
        sizes, rows = balance(assigned), balance(assigned, hints.lag)
        print(f"{name:>20} {alone:8.0f} {whole:9.0f}   {sizes.smallest:8} to {sizes.largest:<8} {rows.overload:12.2f}")
    anew = Hints(lag=hints.lag)
    print(f"{'backlog, all new':>20} {_best_ms(lambda: backlog(keys, chosen.nodes, anew), chosen.rounds):8.0f}")
    heap = Hints(lag=hints.lag, previous=dict.fromkeys(keys, 0))
    print(f"{'backlog, all on one':>20} {_best_ms(lambda: backlog(keys, chosen.nodes, heap), chosen.rounds):8.0f}")


if __name__ == "__main__":
    main()
