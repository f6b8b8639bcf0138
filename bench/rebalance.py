"""How long a group of three goes without a member that left it, and what following a large cluster's layout costs.

First: three processes share a group by dynamic membership, on embedded_tubemq with its leases of 30 s, while messages
are sent to all partitions. One of them ends: it is killed, stopped, or closed. Measured is, for each of its partitions,
the time until another member has confirmed a message. Then it returns: a stopped one goes on, otherwise a new process
joins. Measured is, for each partition of its share, the time until it has confirmed a message. Each way to end has its
own group, and the groups are measured at the same time. Each round begins and returns at a random moment between two
looks at the members.

Then: the metadata refresh of a group whose topics have many partitions, with the parts it consists of.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from statistics import median
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from bench.embedded_process import embedded_tubemq
from bench.group_member import Member
from bench.metadata_refresh import SHAPES, measure_refresh
from embedded_tubemq import TopicConfig
from tubeclient import ClientSettings, PartitionKey, Producer
from tubeclient.flows.hold_group import MASTER_LEASE_MS
from tubeclient.members import share_of

__all__ = ["main"]

End: TypeAlias = Literal["killed", "stopped", "closed"]

_TOPIC = TopicConfig("clicks", stores=2, partitions=3)
_BROKERS = 2
_MEMBERS = 3
_STRATEGY = "modulo"
_SEED = 2024
_SEND_SECONDS = 0.2
_WORD_SECONDS = 10.0
_LEASE_SECONDS = MASTER_LEASE_MS / 1000
_TICK_SECONDS = 1.0
"""Servers look that often whose lease has ended."""
_RETRY_SECONDS = 5.0
"""A partition that another member still has is tried again after so long at the most."""
_SLACK_SECONDS = 60.0
"""So long beyond what it should take something is waited for."""


class Round(NamedTuple):
    """Seconds, of each partition."""

    without: list[float]
    """From the end until another member read it."""
    back: list[float]
    """From the return until the one that returned read it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.refreshes == 1:
        parser.error("one refresh has no median; take --refreshes 2 or more, or 0 for none")
    if options.rounds:
        _measure_ends(options.ends, options.rounds, options.refresh_ms)
    if options.refreshes:
        for shape in SHAPES:
            measure_refresh(shape, options.partitions, options.nodes, options.refreshes)
    return 0


def _measure_ends(ends: Sequence[End], rounds: int, refresh_ms: int) -> None:
    over = threading.Event()
    load = os.getloadavg()[0]
    with embedded_tubemq([_TOPIC], _BROKERS) as settings, ThreadPoolExecutor(len(ends) + 1) as pool:
        writer = pool.submit(_write, settings, over)
        groups = {end: pool.submit(_rounds, settings, end, rounds, refresh_ms, over) for end in ends}
        try:
            _wait_for_all(list(groups.values()), writer)
        finally:
            over.set()
        writer.result()
    print(
        f"{_MEMBERS} members, {len(_partitions())} partitions, leases of {_LEASE_SECONDS:g} s, a look at the members "
        f"each {refresh_ms / 1000:g} s; rounds: {rounds}, load {load:.2f} before and {os.getloadavg()[0]:.2f} after"
    )
    print(f"{'seconds':<44}{'minimum':>9}{'median':>9}{'maximum':>9}")
    look = refresh_ms / 1000
    for end, group in groups.items():
        found = group.result()
        bound = look if end == "closed" else _LEASE_SECONDS + _TICK_SECONDS + look
        back = "it goes on" if end == "stopped" else "another joins"
        print(_line(f"{end}, until others read its partitions", [each for one in found for each in one.without], bound))
        print(
            _line(
                f"{back}, until it reads its share", [each for one in found for each in one.back], look + _RETRY_SECONDS
            )
        )


def _wait_for_all(groups: Sequence[Future[list[Round]]], writer: Future[None]) -> None:
    """Wait until all are done, and raise the first error. The writer ends after them."""
    running: list[Future[Any]] = [*groups, writer]
    while len(running) > 1:
        wait(running, return_when=FIRST_COMPLETED)
        for one in running:
            if one.done():
                one.result()
        running = [one for one in running if not one.done()]


def _write(settings: ClientSettings, over: threading.Event) -> None:
    with Producer(settings) as producer:
        producer.publish([_TOPIC.name])
        while not over.wait(_SEND_SECONDS):
            # The producer takes the partitions in turn, so that each gets one.
            producer.submit_many(_TOPIC.name, [b"message"] * len(_partitions()))
            producer.flush()


def _partitions() -> list[PartitionKey]:
    return [
        PartitionKey(broker, _TOPIC.name, number)
        for broker in range(1, _BROKERS + 1)
        for number in _TOPIC.partition_ids()
    ]


def _rounds(settings: ClientSettings, end: End, rounds: int, refresh_ms: int, over: threading.Event) -> list[Round]:
    with _group(settings, end, refresh_ms, over) as group:
        return [group.round(number, rounds) for number in range(1, rounds + 1)]


@contextmanager
def _group(settings: ClientSettings, end: End, refresh_ms: int, over: threading.Event) -> Iterator[_Group]:
    group = _Group(settings, end, refresh_ms, over)
    try:
        for _ in range(_MEMBERS):
            group.join()
        yield group
    finally:
        for member in group.started:
            member.kill()


class _Group:
    """Three members of one group, of which one ends and returns, again and again."""

    def __init__(self, settings: ClientSettings, end: End, refresh_ms: int, over: threading.Event) -> None:
        self.started: list[Member] = []
        """All that were ever started."""
        self._settings = settings
        self._end = end
        self._refresh_ms = refresh_ms
        self._over = over
        self._members: list[Member] = []
        self._heard = threading.Condition()
        self._random = random.Random(f"{_SEED} {end}")
        self._begun = time.monotonic()

    def join(self) -> Member:
        """Start another member."""
        member = Member(self._settings, f"bench_{self._end}", _TOPIC.name, self._refresh_ms, self._heard)
        self.started.append(member)
        self._members.append(member)
        return member

    def round(self, number: int, rounds: int) -> Round:
        """Let one member end, and return."""
        self._wait_until_shared()
        self._pause()
        self._say(f"round {number} of {rounds}")
        victim = self._members.pop(self._random.randrange(_MEMBERS))
        its = self._share_of(victim, [*self._members, victim])
        ended_at = self._let_end(victim)
        self._wait_until(
            lambda: [key for key in its if self._first_after(key, ended_at) is None], "its partitions to be read"
        )
        without = [(self._first_after(key, ended_at) or 0.0) - ended_at for key in its]
        self._say(f"its {len(its)} partitions were without a reader for {_seconds(without)}")
        self._wait_until_shared()
        self._pause()
        returned_at = self._let_return(victim)
        member = self._members[-1]
        share = self._share_of(member, self._members)
        self._wait_until(
            lambda: [key for key in share if member.first_after(key, returned_at) is None], "it to have its share"
        )
        back = [(member.first_after(key, returned_at) or 0.0) - returned_at for key in share]
        self._say(f"it reads its share again after {_seconds(back)}")
        return Round(without, back)

    def _let_end(self, victim: Member) -> float:
        """Returns when it ended."""
        now = time.monotonic()
        if self._end == "killed":
            victim.kill()
        elif self._end == "stopped":
            victim.stop()
        else:
            victim.close()
            self._wait_until(lambda: [] if victim.closing_at else [victim], "it to close")
            now = victim.closing_at
        return now

    def _let_return(self, victim: Member) -> float:
        """Make it the last of the members; returns when it was back."""
        now = time.monotonic()
        if self._end == "stopped":
            victim.go_on()
            self._members.append(victim)
            return now
        member = self.join()
        self._wait_until(lambda: [] if member.client_id else [member], "a new process to join")
        return member.joining_at

    def _wait_until_shared(self) -> None:
        """Wait until each member has read each partition of its share."""
        since = time.monotonic()
        self._wait_until(lambda: [one for one in self._members if not one.client_id], "all to join")
        shares = [(one, key) for one in self._members for key in self._share_of(one, self._members)]
        self._wait_until(
            lambda: [key for one, key in shares if one.first_after(key, since) is None],
            f"all partitions to be shared by {len(self._members)}",
        )

    def _wait_until(self, missing: Callable[[], Sequence[object]], what: str) -> None:
        """Wait until nothing is missing. RuntimeError: it takes too long, or something else has failed."""
        seconds = _LEASE_SECONDS + self._refresh_ms / 1000 + _SLACK_SECONDS
        deadline = time.monotonic() + seconds
        word_at = time.monotonic() + _WORD_SECONDS
        with self._heard:
            while left := missing():
                now = time.monotonic()
                if self._over.is_set() or not all(one.alive for one in self._members):
                    raise RuntimeError(f"{self._end}: nothing to wait for any more, a process failed")
                if now >= deadline:
                    raise RuntimeError(f"{self._end}: waited {seconds:.0f} s in vain for {what}")
                if now >= word_at:
                    self._say(f"waits for {what}; {len(left)} missing")
                    word_at = now + _WORD_SECONDS
                self._heard.wait(1.0)

    def _pause(self) -> None:
        """Wait until a random moment between two looks."""
        self._over.wait(self._random.uniform(0, self._refresh_ms / 1000))

    def _first_after(self, key: PartitionKey, moment: float) -> float | None:
        found = [one.first_after(key, moment) for one in self._members]
        return min((at for at in found if at is not None), default=None)

    def _share_of(self, member: Member, members: Sequence[Member]) -> list[PartitionKey]:
        share = share_of([one.client_id for one in members], member.client_id, _STRATEGY, _partitions())
        assert share is not None
        return share

    def _say(self, text: str) -> None:
        print(f"{time.monotonic() - self._begun:5.0f} s  {self._end}: {text}", file=sys.stderr, flush=True)


def _seconds(times: Sequence[float]) -> str:
    return f"{min(times):.1f} to {max(times):.1f} s"


def _line(name: str, seconds: Sequence[float], bound: float) -> str:
    verdict = "kept" if max(seconds) <= bound else "exceeded"
    return f"{name:<44}{min(seconds):>9.1f}{median(seconds):>9.1f}{max(seconds):>9.1f}   bound {bound:g}: {verdict}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.rebalance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each way to end; 0 for none (%(default)s)")
    parser.add_argument(
        "--ends", nargs="+", choices=get_args(End), default=list(get_args(End)), help="ways to end (%(default)s)"
    )
    parser.add_argument(
        "--refresh-ms", type=int, default=20_000, help="each member looks at the members that often (%(default)s)"
    )
    parser.add_argument("--refreshes", type=int, default=50, help="metadata refreshes; 0 for none (%(default)s)")
    parser.add_argument("--partitions", type=int, default=10_000, help="of which the metadata tell (%(default)s)")
    parser.add_argument("--nodes", type=int, default=16, help="to which they are assigned (%(default)s)")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
