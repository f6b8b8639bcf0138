"""Administration of a cluster over HTTP: topics, brokers, groups, and positions of groups."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from typing import Final

from tubeclient.admin.answers import refusals, to_group, to_groups
from tubeclient.admin.model import (
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupOffsets,
    GroupSummary,
    PartitionPosition,
)
from tubeclient.admin.web import BrokerWeb, MasterWeb
from tubeclient.arguments import checked_partitions
from tubeclient.errors import BrokerFailed, ConfigurationError, ProtocolError, RemoteError, TubeError, UnknownGroup
from tubeclient.keys import PartitionKey, StoreBounds, StoreFiles, StoreKey, checked_offset
from tubeclient.names import (
    group_name,
    new_topic_name,
    topic_names,
)
from tubeclient.passwords import check_password_sources, read_password
from tubeclient.settings import ClientSettings, checked_settings

# TubeMQ keeps the brokers' group data in its own topic (TServerConstants.OFFSET_HISTORY_NAME).
_OWN_TOPICS: Final = frozenset({"__offset_history__"})

_USER: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{1,63}")
_SHOWN_PARTITIONS: Final = 10


class Admin:
    """The web calls of a cluster's masters and brokers. It holds no connection and is thread-safe.

    Each call of a server may take `http_timeout_ms`. A method queries one master and, for positions or bounds, every
    broker in service, one after the other. Methods raise RemoteError if a master refuses, TransportError if none
    answers, ProtocolError for answers that are not TubeMQ's, ConfigurationError for wrong arguments, and BrokerFailed
    if a broker refuses or does not answer: what other brokers were told before stays, and repeating the call is safe.

    Changes of the master's configuration need its confModAuthToken: give `modify_token`, or `modify_token_file` or
    `modify_token_env`, which are read when needed. Brokers need no token. The servers record `modify_user` as the
    author of changes.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        modify_token: str | None = None,
        modify_token_file: str | None = None,
        modify_token_env: str | None = None,
        modify_user: str = "tubeclient",
    ) -> None:
        self._settings = checked_settings(settings)
        if not isinstance(modify_user, str) or not _USER.fullmatch(modify_user):
            raise ConfigurationError(
                f"modify_user {modify_user!r} is not a user name: a letter, then letters, digits and '_', "
                "2 to 64 characters"
            )
        self._masters = MasterWeb(settings)
        self._token_sources = modify_token, modify_token_file, modify_token_env
        self._has_token = check_password_sources("modify_token", *self._token_sources)
        self._modify_user = modify_user

    def __repr__(self) -> str:
        token = "'***'" if self._has_token else "None"
        return f"Admin({', '.join(self._masters.addresses)}, modify_token={token}, modify_user={self._modify_user!r})"

    # What there is

    def brokers(self) -> list[BrokerState]:
        """All brokers in the master's configuration, sorted by id, running or not."""
        return self._masters.brokers()

    def topics(self, names: Iterable[str] = ()) -> list[DeployedTopic]:
        """These topics, or all but TubeMQ's own; sorted by name. Topics that are not deployed are left out."""
        wanted = topic_names(names)
        return [topic for topic in self._masters.topics(wanted) if wanted or topic.name not in _OWN_TOPICS]

    def topic_names(self) -> list[str]:
        """The names of all deployed topics but TubeMQ's own, sorted."""
        return [topic.name for topic in self.topics()]

    def groups(self) -> list[GroupSummary]:
        """The consumer groups with clients online, sorted by name."""
        return self._masters.ask("admin_query_sub_info", to_groups)

    def stored_groups(self) -> list[str]:
        """The consumer groups of which a broker in service keeps positions, with clients online or not; sorted. A new
        group shows up to 5 s late."""
        found: set[str] = set()
        for broker in self._brokers_in_service().values():
            with _naming(broker):
                found |= self._web(broker).groups()
        return sorted(found)

    def group(self, name: str) -> GroupDetail:
        """One group with its clients and their partitions. A group that the master does not know has no members."""
        return self._masters.ask("admin_query_consume_group_detail", to_group, groupName=group_name(name))

    # Offsets

    def store_bounds(self, topics: Iterable[str] = ()) -> dict[StoreKey, StoreBounds]:
        """The bounds of all stores of these topics, or of all topics, as their indexes have them. Brokers may have
        dropped the data of the first entries, which `OffsetLookup.bounds` leaves out. ConfigurationError for a topic
        that is not deployed."""
        return self._bounds_of(self._deployed(topics), self._brokers_in_service())

    def group_offsets(self, group: str, topics: Iterable[str] = ()) -> GroupOffsets:
        """The positions of a group in these topics, or in all. UnknownGroup if no broker has any.

        A group's first position shows up to 5 s late, after the broker has saved it.
        """
        name = group_name(group)
        wanted, brokers = topic_names(topics), self._brokers_in_service().values()
        found: list[PartitionPosition] = []
        for broker in brokers:
            with _naming(broker):
                found += self._web(broker).positions(name, wanted)
        if not found:
            about = f" in {', '.join(wanted)}" if wanted else ""
            raise UnknownGroup(
                f"none of the brokers {', '.join(map(str, brokers)) or '(there is none)'} has a position of group "
                f"{name}{about}; check its name, or wait 5 s if it is new. Queries with a checkpoint keep theirs there"
            )
        return GroupOffsets(name, tuple(sorted(found)))

    def set_offsets(self, group: str, offsets: Mapping[PartitionKey, int]) -> dict[PartitionKey, int]:
        """Set the positions of a group in these partitions; returns the former ones, 0 if there was none.

        Running clients continue there with their next fetch; what they have in flight is dropped. Partitions and
        offsets (multiples of 28 bytes within the store's bounds) are checked before anything changes.
        """
        name = group_name(group)
        brokers = self._brokers_in_service()
        self._check(offsets, brokers)
        former: dict[PartitionKey, int] = {}
        for key, offset in sorted(offsets.items()):
            broker = brokers[key.broker_id]
            with _naming(broker):
                former[key] = self._web(broker).set_position(name, key, offset, self._modify_user)
        return former

    # The master's books

    def create_topic(self, name: str, *, stores: int = 1, partitions_per_store: int = 1) -> None:
        """Deploy a topic on all brokers in service. Clients can use it once `topics` shows it as loaded; Apache's
        brokers take up to 35 s, and up to 80 s if they are still loading an earlier change: the master begins anew
        after it (BrokerRunStatusInfo). Needs the modify token."""
        new = new_topic_name(name)
        broker_ids = ",".join(str(broker_id) for broker_id in self._brokers_in_service())
        self._modify(
            "admin_add_new_topic_record",
            topicName=new,
            brokerId=broker_ids,
            numTopicStores=str(stores),
            numPartitions=str(partitions_per_store),
            createUser=self._modify_user,
        )
        self._modify("admin_reload_broker_configure", brokerId=broker_ids, modifyUser=self._modify_user)

    def alter_topic(
        self,
        name: str,
        *,
        stores: int | None = None,
        partitions_per_store: int | None = None,
        accepts_publish: bool | None = None,
        accepts_subscribe: bool | None = None,
    ) -> None:
        """Change a topic on all its brokers; what is None stays. Takes effect as `create_topic` does. Needs the modify
        token."""
        [topic] = self._deployed([name])
        wanted = {
            "numTopicStores": stores,
            "numPartitions": partitions_per_store,
            "acceptPublish": accepts_publish,
            "acceptSubscribe": accepts_subscribe,
        }
        changes = {field: str(value).lower() for field, value in wanted.items() if value is not None}
        if not changes:
            raise ConfigurationError(f"nothing is to be changed of topic {topic.name}")
        where = {"brokerId": ",".join(str(on.broker.broker_id) for on in topic.on_brokers)}
        who = {"modifyUser": self._modify_user}
        self._modify("admin_modify_topic_info", topicName=topic.name, **where, **changes, **who)
        self._modify("admin_reload_broker_configure", **where, **who)

    # Inside

    def _modify(self, method: str, **parameters: str) -> None:
        """Change the master's configuration. RemoteError also if the change was refused for one broker."""
        if not self._has_token:
            raise ConfigurationError(
                f"{method} changes the master's configuration; give Admin the modify_token, the confModAuthToken of "
                "master.ini"
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

    def _brokers_in_service(self) -> dict[int, BrokerState]:
        return {broker.info.broker_id: broker for broker in self.brokers() if broker.is_in_service}

    def _deployed(self, topics: Iterable[str]) -> list[DeployedTopic]:
        wanted = topic_names(topics)
        found = self.topics(wanted)
        if missing := sorted(set(wanted) - {topic.name for topic in found}):
            raise ConfigurationError(
                f"no such topic on this cluster: {', '.join(missing)}; topic_names() lists the topics",
                condition="TOPIC_NOT_FOUND",
            )
        return found

    def _bounds_of(
        self, topics: Iterable[DeployedTopic], brokers: Mapping[int, BrokerState]
    ) -> dict[StoreKey, StoreBounds]:
        stores = sorted({key.store for topic in topics for key in topic.partitions() if key.broker_id in brokers})
        served: dict[StoreKey, StoreFiles] = {}
        for broker_id, of_broker in groupby(stores, key=lambda store: store.broker_id):
            with _naming(brokers[broker_id]):
                served |= self._files(brokers[broker_id], list(of_broker))
        return {store: files.index_bounds for store, files in served.items()}

    def _check(self, offsets: Mapping[PartitionKey, int], brokers: Mapping[int, BrokerState]) -> None:
        """ConfigurationError if one of these positions cannot be set."""
        if not checked_partitions(offsets, "offsets"):
            raise ConfigurationError("no offsets are given; map partitions to index offsets")
        for key, offset in offsets.items():
            checked_offset(offset, f"partition {key}")
        topics = self._deployed({key.topic for key in offsets})
        # A broker would create a store for an id that the topic does not have.
        known = {key for topic in topics for key in topic.partitions() if key.broker_id in brokers}
        if unknown := offsets.keys() - known:
            raise ConfigurationError(
                f"no such partition on this cluster: {_listed(unknown)}; topics() shows the topics' partitions"
            )
        stores = {key.store for key in offsets}
        bounds = self._bounds_of(topics, {store.broker_id: brokers[store.broker_id] for store in stores})
        for key, offset in offsets.items():
            low, high = bounds[key.store]
            if not low <= offset <= high:
                raise ConfigurationError(
                    f"offset {offset} of partition {key} is not within its store's [{low}, {high}]"
                )

    def _files(self, broker: BrokerState, stores: Collection[StoreKey]) -> dict[StoreKey, StoreFiles]:
        """The files of these stores of one broker; TubeError while it is starting."""
        from tubeclient.positions.first_offsets import loaded_files

        place = broker.info if self._settings.tls is None else broker.info._replace(port=broker.tls_port)
        return loaded_files(self._web(broker).files, place, stores, self._settings)

    def _web(self, broker: BrokerState) -> BrokerWeb:
        return BrokerWeb(broker.info.broker_id, broker.web_address, self._settings.http_timeout_ms)


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
        f"{text}; the token that was given must be the confModAuthToken of master.ini",
        address=error.address,
        condition="AUTHENTICATION_FAILED",
    )


@contextmanager
def _naming(broker: BrokerState) -> Iterator[None]:
    """Turn an error in the block into one that names the broker."""
    try:
        yield
    except TubeError as error:
        raise BrokerFailed(f"broker {broker} failed: {error}", broker=str(broker)) from error


def _listed(partitions: Iterable[PartitionKey]) -> str:
    keys = sorted(partitions)
    more = f" and {len(keys) - _SHOWN_PARTITIONS} more" if len(keys) > _SHOWN_PARTITIONS else ""
    return (", ".join(map(str, keys[:_SHOWN_PARTITIONS])) or "nothing") + more
