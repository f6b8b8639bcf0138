"""A consumer with automatic assignment: a thread assigns the partitions and follows the cluster."""

from __future__ import annotations

import logging
import random
import re
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal, Self, TypedDict, Unpack

from tubeclient.arguments import checked_kind, checked_partitions, given_ms, whole_number
from tubeclient.assignment import NO_HINTS, Hints, assign, check_strategy
from tubeclient.consumers.consumer import ClientBalanceConsumer
from tubeclient.consumers.sharing import Sharing
from tubeclient.errors import ConfigurationError, TubeError
from tubeclient.flows.effects import backoff_ms
from tubeclient.flows.hold_group import Forgotten
from tubeclient.flows.master import GroupOrders
from tubeclient.flows.message_pack import BadMessages
from tubeclient.flows.read_plan import BootstrapOffset, StartFrom
from tubeclient.flows.registrar import Lost
from tubeclient.keys import INDEX_ENTRY_BYTES, PartitionKey, TopicLayout
from tubeclient.metadata import ClusterView
from tubeclient.names import Topics
from tubeclient.net.waiting import Alarm, OneThread
from tubeclient.settings import ClientSettings

_log = logging.getLogger(__name__)


MembershipKind = Literal["fixed", "dynamic"]
"""Whether a client is given its place in the group (source_count, node_id), or finds it among the live clients."""


class ConsumerOptions(TypedDict, total=False):
    """Keyword arguments of both kinds of consumers; see ClientBalanceConsumer."""

    subscribe_pattern: str | re.Pattern[str] | None
    start_from: StartFrom
    prefetch: int
    confirm_timeout_ms: int
    fail_on_data_loss: bool
    bad_messages: BadMessages
    metadata_interval_ms: int
    on_assigned: Callable[[PartitionKey, int], None] | None
    on_revoked: Callable[[PartitionKey], None] | None
    on_lost: Callable[[PartitionKey, TubeError], None] | None


class PullConsumer(ClientBalanceConsumer):
    """A `ClientBalanceConsumer` that connects its partitions by itself. Its user takes packs and confirms them.

    A thread assigns all configured partitions, sorted, to the group's nodes. It releases the partitions that are no
    longer this node's and connects those that are. It does so at the start, every `balance_interval_ms`, and at once
    when the cluster's layout changes or a partition is lost. A partition that takes no readers for now stays in the
    assignment, and no other one moves.

    With `subscribe_pattern` it looks for topics at the start, when a master's web port must answer, and every
    `metadata_interval_ms`. New topics join. Without a position of the group they begin with their first messages,
    unless `start_from` is "always_latest". Topics leave when two looks in a row lack them. If none matches, it waits,
    and `get` returns None.

    With dynamic membership the nodes are the group's live clients, `members`, as the master's web port lists them at
    each look. If a member dies or stops working, the others read its partitions when its leases have ended (30 s) and
    they look again. If it comes back, it gets its share when they have released it.

    Callbacks run on the balancing thread. The consumer follows the master's order to continue with the latest messages,
    and its flow-control rules. `connect` moves a partition that this client has.

    Some errors end the balancing for good: another client took the node, the group lost its right to the topic, or a
    start offset is no longer held. From then on `get`, `connect` and `wait_ready` raise that error.

        >>> with PullConsumer(settings, "etl", ["clicks"], source_count=4, node_id=1) as consumer:  # doctest: +SKIP
        ...     for delivery in consumer:
        ...         handle(delivery.bodies)

    Args:
        topics: Names, or a mapping of names to the tags to filter by (none: all messages).
        source_count: How many nodes the group has. Leave it out with dynamic membership.
        node_id: The node of this client, from 0 to source_count - 1. Leave it out with dynamic membership.
        membership: "fixed" by `source_count` and `node_id`, or "dynamic". All clients of a group need the same.
        strategy: A name that `tubeclient.assignment.assign` knows, the same for all clients of the group.
        hints: The hints that the strategy needs, the same for all clients of the group.
        start_offsets: Where these partitions begin when they are first connected (index offsets, or values of
            `BootstrapOffset`). All others continue at the group's position.
        release_wait_ms: How long giving a partition back waits until its pack is confirmed.
        relieve_slow: With dynamic membership, and given to all members. A member that falls behind gives partitions to
            members that keep up, as measured by the group's positions at the brokers over `confirm_timeout_ms`. A
            member that confirms nothing gives up all, one that is slow keeps at least one. They come back when the
            members or the partitions change.
        **options: Further arguments of `ClientBalanceConsumer`.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        settings: ClientSettings,
        consumer_group: str,
        topics: Topics = (),
        *,
        source_count: int = 1,
        node_id: int = 0,
        membership: MembershipKind = "fixed",
        strategy: str = "modulo",
        hints: Hints = NO_HINTS,
        start_offsets: Mapping[PartitionKey, int] | None = None,
        balance_interval_ms: int = 20_000,
        release_wait_ms: int = 3_000,
        relieve_slow: bool = False,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        if membership not in ("fixed", "dynamic"):
            raise ConfigurationError(f"membership must be fixed or dynamic, not {membership!r}")
        checked_kind(strategy, str, "strategy", '"modulo"')
        checked_kind(hints, Hints, "hints", "Hints(plan={...})")
        self._sharing: Sharing | None = None
        if membership == "dynamic":
            if (source_count, node_id) != (1, 0):
                raise ConfigurationError(
                    "with dynamic membership the live clients are the nodes; leave out source_count and node_id"
                )
            self._sharing = Sharing(settings, consumer_group, strategy, hints)
            source_count = node_id = -1
        super().__init__(settings, consumer_group, topics, source_count=source_count, node_id=node_id, **options)
        if self._sharing is None:
            check_strategy(strategy, source_count, hints)
        self._strategy, self._hints = strategy, hints
        self._start_offsets = _checked_offsets(start_offsets)
        self._unchecked = set(self._start_offsets)
        """Those whose partitions were not looked for yet."""
        self._release_wait_ms = given_ms(release_wait_ms, "release_wait_ms")
        self._balance_interval_ms = given_ms(balance_interval_ms, "balance_interval_ms")
        if self._balance_interval_ms < 1:
            raise ConfigurationError("balance_interval_ms must be above 0")
        if self._topic_watch is not None:
            self._balance_interval_ms = min(self._balance_interval_ms, self._topic_watch.interval_ms)
        self._config |= {
            "membership": membership,
            "strategy": strategy,
            "hints": hints,
            "start_offsets": dict(self._start_offsets),
            "balance_interval_ms": self._balance_interval_ms,
            "release_wait_ms": release_wait_ms,
            "relieve_slow": relieve_slow,
        }
        if relieve_slow:
            if self._sharing is None:
                raise ConfigurationError(
                    'relieve_slow needs membership="dynamic", because each node of a fixed group keeps its share'
                )
            limit_ms = self._plan.confirm_timeout_ms
            self._sharing.relieve(
                self._plan.client_id, balance_ms=self._balance_interval_ms, confirm_timeout_ms=limit_ms
            )
        self._due = due = Alarm()
        self._attempt = 0
        self._layouts: tuple[TopicLayout, ...] | None = None
        self._balancer = OneThread(partial(_balance, weakref.ref(self), due), "tubeclient-balance")
        self._running.balancing = due, self._balancer

    def start(self, *, occupied_timeout_ms: float = 0) -> Self:
        """Register at the master and start balancing; see `ClientBalanceConsumer.start`.

        `wait_ready` waits for the first partition.
        """
        super().start(occupied_timeout_ms=occupied_timeout_ms)
        if self._sharing is not None and not self._balancer.begun:
            try:
                self._sharing.live_clients(self.consumer_id)
            except BaseException:
                self.close()
                raise
        self._balancer.ensure()
        return self

    @property
    def members(self) -> tuple[str, ...]:
        """With dynamic membership, the ids of the clients that share the partitions, in order. Else empty.

        They are from the master's last list that had this client.
        """
        return self._sharing.members if self._sharing is not None else ()

    def _balance(self) -> float | None:
        """Balance once; returns the wait before the next time in ms, or None if this was the last."""
        try:
            refused = self._balance_once()
        except TubeError as error:
            if self.closed:
                return None
            if not error.retriable:
                _log.error("balancing consumerGroup %s ended: %s", self._group, error, exc_info=error.__cause__)
                self._running.fail(error)
                return None
            _log.warning("balancing consumerGroup %s failed; trying again: %s", self._group, error)
            again = True
        else:
            for key, refusal in refused.items():
                _log.info("could not connect partition %s; trying again: %s", key, refusal)
            again = bool(refused) or (self._sharing is not None and not self._sharing.listed)
        if not again:
            self._attempt = 0
            return self._balance_interval_ms
        self._attempt += 1
        pause_ms = backoff_ms(self._attempt - 1, random.random(), first_ms=200, limit_ms=5_000)
        return min(pause_ms, self._balance_interval_ms)

    def _balance_once(self) -> Mapping[PartitionKey, TubeError]:
        running = self._live()
        view = running.membership.view()
        partitions = view.partitions()
        unknown = sorted(str(key) for key in self._unchecked if not view.has(key))
        if unknown:
            _log.warning(
                "start_offsets of consumerGroup %s name partitions that do not exist: %s",
                self._group,
                ", ".join(unknown),
            )
        self._unchecked.clear()
        if self._sharing is not None:
            is_polled = running.run(running.fetcher.is_polled(self._plan.confirm_timeout_ms))
            ours = self._sharing.ours(self._plan.client_id, partitions, running.registered(), is_polled=is_polled)
        else:
            ours = assign(self._strategy, partitions, self.source_count, self._hints)[self.node_id]
        flow = running.registrar.balance(view, ours, self._start_offsets, release_wait_ms=self._release_wait_ms)
        try:
            return running.run(flow)
        finally:
            for key in running.registered():
                self._start_offsets.pop(key, None)  # on a later connect it continues at the group's position
            running.report()

    def _place(self) -> str:
        return f"one of {len(self.members)} members" if self._sharing is not None else super()._place()

    def _handle(self, event: object) -> None:
        super()._handle(event)
        if isinstance(event, Lost):
            self._due.set()

    def _follow(self, event: GroupOrders | ClusterView | Forgotten | TubeError) -> None:
        super()._follow(event)
        if isinstance(event, Forgotten) and self._sharing is not None:
            self._sharing.forgotten()
        elif isinstance(event, ClusterView):
            if event.layouts == self._layouts:
                return
            self._layouts = event.layouts
        self._due.set()


def _checked_offsets(start_offsets: Mapping[PartitionKey, int] | None) -> dict[PartitionKey, int]:
    offsets: dict[PartitionKey, int] = {}
    for key, given in checked_partitions({} if start_offsets is None else start_offsets, "start_offsets").items():
        offsets[key] = offset = whole_number(given, f"the start offset of partition {key}")
        if (offset >= 0 and offset % INDEX_ENTRY_BYTES) or (offset < 0 and offset not in set(BootstrapOffset)):
            # One that no partition can have would be rounded without a word.
            raise ConfigurationError(
                f"the start offset of partition {key} is {offset}; it must be 0 or a positive multiple of "
                f"{INDEX_ENTRY_BYTES}, because each message takes that many bytes of the index, or a BootstrapOffset"
            )
    return offsets


def _balance(known: weakref.ref[PullConsumer], due: Alarm) -> None:
    """The balancing thread. It holds the consumer only while it balances, and ends when nothing else refers to it."""
    while True:
        consumer = known()
        if consumer is None or consumer.closed:
            return
        pause_ms = consumer._balance()
        del consumer
        if pause_ms is None:
            return
        due.wait(pause_ms / 1000)
