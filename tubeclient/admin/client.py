"""Administration of a cluster over HTTP: topics, brokers, groups, and positions of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeVar

from tubeclient.admin.answers import (
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupOffsets,
    GroupSummary,
    refusals,
    to_group,
    to_groups,
)
from tubeclient.admin.broker_webs import BrokerWeb, BrokerWebs, MasterWeb, raise_first
from tubeclient.arguments import checked_partitions
from tubeclient.errors import ConfigurationError, ProtocolError, RemoteError, TubeError, UnknownGroup
from tubeclient.keys import BrokerInfo, PartitionKey, StoreBounds, StoreFiles, StoreKey, checked_offset
from tubeclient.metadata import ClusterView
from tubeclient.names import group_name, new_topic_name, topic_names
from tubeclient.passwords import check_password_sources, read_password
from tubeclient.settings import ClientSettings, checked_settings

T = TypeVar("T")

# TubeMQ keeps the brokers' group data in its own topic (TServerConstants.OFFSET_HISTORY_NAME).
_OWN_TOPICS: Final = frozenset({"__offset_history__"})

_USER: Final = "tubeclient"
"""Recorded by the servers as the author of changes."""


class Admin:
    """The web calls of a cluster's masters and brokers. It holds no connection and is thread-safe.

    A method queries one master and, for positions or bounds, every broker in service. If one broker fails, what other
    brokers changed stays, and repeating the call is safe.

    Changes of the master's configuration need its confModAuthToken. Give it, or a file or environment variable with it,
    which are read when needed. Brokers need no token.

    Args:
        modify_token: The confModAuthToken of master.ini.
        modify_token_file: A file with the token.
        modify_token_env: The name of an environment variable with the token.

    Raises:
        RemoteError: A master refuses.
        TransportError: No master answers.
        ProtocolError: An answer is not TubeMQ's.
        BrokerFailed: A broker refuses or does not answer.
        ConfigurationError: An argument is wrong.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        modify_token: str | None = None,
        modify_token_file: str | None = None,
        modify_token_env: str | None = None,
    ) -> None:
        self._settings = checked_settings(settings)
        self._masters = MasterWeb(settings)
        self._token_sources = modify_token, modify_token_file, modify_token_env
        self._has_token = check_password_sources("modify_token", *self._token_sources)

    # What there is

    def brokers(self) -> list[BrokerState]:
        """Return all brokers in the master's configuration, sorted by id, running or not."""
        return self._masters.brokers()

    def topics(self, names: Iterable[str] = ()) -> list[DeployedTopic]:
        """Return these topics, or all but TubeMQ's own, sorted by name. Topics that are not deployed are left out."""
        wanted = topic_names(names)
        return [topic for topic in self._masters.topics(wanted) if wanted or topic.name not in _OWN_TOPICS]

    def topic_names(self) -> list[str]:
        """Return the names of all deployed topics but TubeMQ's own, sorted."""
        return [topic.name for topic in self.topics()]

    def groups(self) -> list[GroupSummary]:
        """Return the consumer groups with clients online, sorted by name."""
        return self._masters.ask("admin_query_sub_info", to_groups)

    def stored_groups(self, *, silent: dict[int, TubeError] | None = None) -> list[str]:
        """Return the consumer groups that have positions at a broker in service, sorted.

        Their clients need not be online. A new group shows up to 5 s late.

        Args:
            silent: Gets the brokers that do not answer, by id, with their errors. None: such a one is a BrokerFailed.
        """
        found = self._each(self._view(), "reports its groups", lambda _, web, on: web.groups(), silent)
        return sorted(frozenset().union(*found))

    def group(self, name: str) -> GroupDetail:
        """Return one group with its clients and their partitions. An unknown group has no members."""
        return self._masters.ask("admin_query_consume_group_detail", to_group, groupName=group_name(name))

    # Offsets

    def store_bounds(
        self, topics: Iterable[str] = (), *, silent: dict[int, TubeError] | None = None
    ) -> dict[StoreKey, StoreBounds]:
        """Return the bounds of all stores of these topics, or of all topics, as their indexes have them.

        The data of the first entries may be gone already. `OffsetLookup.bounds` leaves those entries out.

        Args:
            silent: As in `stored_groups`.

        Raises:
            ConfigurationError: A topic is not deployed.
        """
        view = self._view(self._deployed(topics))
        stores = view.stores()

        def files(webs: BrokerWebs, _: BrokerWeb, on: BrokerInfo) -> dict[StoreKey, StoreFiles]:
            return webs.files(on, [store for store in stores if store.broker_id == on.broker_id])

        found = self._each(view, "reports its stores", files, silent)
        return {store: of_store.index_bounds for of_broker in found for store, of_store in sorted(of_broker.items())}

    def group_offsets(
        self, group: str, topics: Iterable[str] = (), *, silent: dict[int, TubeError] | None = None
    ) -> GroupOffsets:
        """Return the positions of a group in these topics, or in all.

        A group's first position shows up to 5 s late, after the broker has saved it.

        Args:
            silent: As in `stored_groups`. Then no position is no error if a broker does not answer.

        Raises:
            UnknownGroup: No broker has a position of the group.
        """
        name, wanted, view = group_name(group), topic_names(topics), self._view()
        what = f"reports the position of group {name}"
        answers = self._each(view, what, lambda _, web, on: web.positions(name, wanted), silent)
        found = [position for of_broker in answers for position in of_broker]
        if not (found or silent):
            about = f" in {', '.join(wanted)}" if wanted else ""
            raise UnknownGroup(
                "none of the brokers {', '.join(map(str, view.brokers.values())) or '(none known)'} has a position "
                f"for group {name}{about}; check the group's name, or wait 5 s if it is new. A query with a "
                "checkpoint keeps its position there"
            )
        return GroupOffsets(name, tuple(sorted(found)))

    def set_offsets(self, group: str, offsets: Mapping[PartitionKey, int]) -> None:
        """Set the positions of a group in these partitions.

        Running clients continue there with their next fetch. What they have in flight is dropped.

        Args:
            offsets: Index offsets, multiples of 28 bytes. One before a store's first offset becomes the first one.

        Raises:
            ConfigurationError: No offsets are given, or a topic or partition does not exist.
            BrokerFailed: An offset is after a store's last one, or the broker fails otherwise.
        """
        name = group_name(group)
        if not checked_partitions(offsets, "offsets"):
            raise ConfigurationError("no offsets given; pass a map from partitions to index offsets")
        for key, offset in offsets.items():
            checked_offset(offset, f"partition {key}")
        view = self._view(self._deployed({key.topic for key in offsets}))
        # A broker would create a store for an id that the topic does not have.
        if unknown := sorted(key for key in offsets if not view.has(key)):
            raise ConfigurationError(
                f"no such partition on this cluster: {unknown[0]}; topics() shows the topics' partitions"
            )
        BrokerWebs(self._settings).set_group_positions(view, name, offsets, _USER)

    # The master's configuration

    def create_topic(self, name: str, *, stores: int = 1, partitions_per_store: int = 1) -> None:
        """Deploy a topic on all brokers in service. Needs the modify token.

        Clients can use the topic once `topics` shows it as loaded. Apache's brokers take up to 35 s. They take up to 80
        s if they are still loading an earlier change, because the master begins anew after it (BrokerRunStatusInfo).
        """
        new = new_topic_name(name)
        broker_ids = ",".join(map(str, self._view().brokers))
        self._modify(
            "admin_add_new_topic_record",
            topicName=new,
            brokerId=broker_ids,
            numTopicStores=str(stores),
            numPartitions=str(partitions_per_store),
            createUser=_USER,
        )
        self._modify("admin_reload_broker_configure", brokerId=broker_ids, modifyUser=_USER)

    def alter_topic(self, name: str, *, stores: int | None = None, partitions_per_store: int | None = None) -> None:
        """Change a topic on all its brokers. Needs the modify token. Takes effect as `create_topic` does.

        Args:
            stores: The new number of stores per broker; None leaves it as it is.
            partitions_per_store: The new number; None leaves it as it is.

        Raises:
            ConfigurationError: The topic is not deployed, or nothing is to be changed.
        """
        [topic] = self._deployed([name])
        wanted = {"numTopicStores": stores, "numPartitions": partitions_per_store}
        changes = {field: str(value) for field, value in wanted.items() if value is not None}
        if not changes:
            raise ConfigurationError(f"nothing to change in topic {topic.name}")
        where = {"brokerId": ",".join(str(on.broker.broker_id) for on in topic.on_brokers)}
        who = {"modifyUser": _USER}
        self._modify("admin_modify_topic_info", topicName=topic.name, **where, **changes, **who)
        self._modify("admin_reload_broker_configure", **where, **who)

    # Inside

    def _modify(self, method: str, **parameters: str) -> None:
        """Change the master's configuration. RemoteError also if the change was refused for one broker."""
        if not self._has_token:
            raise ConfigurationError(
                f"{method} changes the master's configuration; give Admin the modify_token, which is "
                "confModAuthToken in master.ini"
            )
        token = read_password("modify_token", *self._token_sources)
        try:
            refused = self._masters.ask(method, refusals, confModAuthToken=token, **parameters)
            failure: TubeError | None = RemoteError(method, "; ".join(refused)) if refused else None
        except TubeError as error:
            failure = error
        # Raise outside the handler, so that the server's own text is not in the context.
        if failure is not None:
            raise _without(token, failure)

    def _view(self, topics: Iterable[DeployedTopic] = ()) -> ClusterView:
        """The brokers in service, at the ports that clients use, with these topics."""
        tls = self._settings.tls is not None
        brokers = [
            state.info._replace(port=state.tls_port) if tls else state.info
            for state in self.brokers()
            if state.is_in_service
        ]
        return ClusterView.of(brokers, [on.layout for topic in topics for on in topic.on_brokers])

    def _each(
        self,
        view: ClusterView,
        what_for: str,
        ask: Callable[[BrokerWebs, BrokerWeb, BrokerInfo], T],
        silent: dict[int, TubeError] | None,
    ) -> list[T]:
        """What the brokers of the view answer. Those that do not go to `silent`; without one BrokerFailed names one."""
        webs = BrokerWebs(self._settings)
        webs.learn(view)
        found, failures = webs.each(view.brokers.values(), what_for, lambda web, on: ask(webs, web, on))
        if silent is None:
            raise_first(view.brokers, failures)
        else:
            silent.update(failures)
        return [found[broker_id] for broker_id in sorted(found)]

    def _deployed(self, topics: Iterable[str]) -> list[DeployedTopic]:
        wanted = topic_names(topics)
        found = self.topics(wanted)
        if missing := sorted(set(wanted) - {topic.name for topic in found}):
            raise ConfigurationError(
                f"no such topic on this cluster: {', '.join(missing)}; topic_names() lists the topics",
                condition="TOPIC_NOT_FOUND",
            )
        return found


_WRONG_TOKEN: Final = "unauthorized"  # noqa: S105 - a code of TubeMQ
"""In Apache's words for another token: "illegal access, unauthorized request!" (WebParameterUtils)."""


def _without(token: str, error: TubeError) -> TubeError:
    """The error of a change, without the token in case a server repeats it."""
    if not isinstance(error, RemoteError):
        repeated = token in str(error)
        return ProtocolError("the master repeats the modify token in its answer") if repeated else error
    text = error.text.replace(token, "***")
    if _WRONG_TOKEN not in text:
        return type(error)(error.exception_name, text, address=error.address)
    return RemoteError(
        error.exception_name,
        f"{text}; the modify token must equal confModAuthToken in master.ini",
        address=error.address,
        condition="AUTHENTICATION_FAILED",
    )
