"""The master's HTTP calls, as functions from parameters to JSON.

The JSON has the form of TubeMQ's WebOtherInfoHandler, WebBrokerConfHandler and WebTopicDeployHandler. Queries need no
token; changes need the master's token.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from embedded_tubemq.common.admin import AdminError, Parameters, failed, listed, succeeded
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.flow_rules import CLUSTER
from embedded_tubemq.master.answers import DONE, broker_json, group_json, refusal, topic_json
from embedded_tubemq.master.master import Master
from tubeclient.errors import ConfigurationError

__all__ = ["MasterAdmin", "TopicKeeper"]


class TopicKeeper(Protocol):
    """Creates and removes topics: the cluster around the master, which a master does not know."""

    def put_topic(self, topic: TopicConfig) -> None:
        """Create a topic or let it grow."""

    def remove_topic(self, name: str) -> None:
        """Remove a topic with its messages."""


class MasterAdmin:
    """The calls of one master; `clock` gives ms."""

    def __init__(self, master: Master, topics: TopicKeeper, token: str, clock: Callable[[], int]) -> None:
        self._master = master
        self._topics = topics
        self._token = token
        self._rules = master.catalogue.flow_rules
        self._clock = clock
        self._queries: dict[str, Callable[[Parameters], dict[str, Any]]] = {
            "admin_query_broker_run_status": self._broker_run_status,
            "admin_query_topic_info": self._topic_info,
            "admin_query_consume_group_detail": self._group_detail,
            "admin_query_sub_info": self._sub_info,
            "admin_query_client_balance_group_set": self._client_balance_groups,
        }
        self._changes: dict[str, Callable[[Parameters], dict[str, Any]]] = {
            "admin_add_new_topic_record": self._add_topics,
            "admin_modify_topic_info": self._modify_topics,
            "admin_delete_topic_info": self._delete_topics,
            "admin_reload_broker_configure": self._reload_brokers,
            "admin_set_client_balance_group_consume_from_max": self._consume_from_max,
            "admin_set_group_flow_control_rule": self._set_group_rules,
            "admin_set_cluster_default_setting": self._set_cluster_rules,
        }

    def call(self, parameters: Parameters) -> dict[str, Any]:
        """Run the call that the parameter `method` names."""
        self._master.tick(self._clock())
        try:
            if self._master.faults.standby:
                raise AdminError("Bad request from client, Please send your request to the master Node.")
            method = parameters.text("method")
            if method in self._queries:
                return self._queries[method](parameters)
            if method in self._changes:
                if not hmac.compare_digest(parameters.text("confModAuthToken").encode(), self._token.encode()):
                    raise AdminError("illegal access, unauthorized request: confModAuthToken is not this master's")
                return self._changes[method](parameters)
            raise AdminError(f"unknown method {method}")
        except AdminError as error:
            return failed(error)
        except ConfigurationError as error:
            return failed(AdminError(str(error)))

    # Queries

    def _broker_run_status(self, parameters: Parameters) -> dict[str, Any]:
        ids, hosts = parameters.numbers("brokerId"), parameters.texts("brokerIp")
        return listed(
            [
                broker_json(broker)
                for broker in self._master.catalogue.brokers()
                if (not ids or broker.info.broker_id in ids) and (not hosts or broker.info.host in hosts)
            ]
        )

    def _topic_info(self, parameters: Parameters) -> dict[str, Any]:
        names, ids = parameters.texts("topicName"), parameters.numbers("brokerId")
        brokers = [broker for broker in self._master.catalogue.brokers() if not ids or broker.info.broker_id in ids]
        topics = [topic for topic in self._master.catalogue.topics() if not names or topic.name in names]
        return listed([topic_json(topic, brokers) for topic in topics])

    def _group_detail(self, parameters: Parameters) -> dict[str, Any]:
        name = parameters.text("groupName", "") or parameters.text("consumeGroup")
        return succeeded(**group_json(name, self._master.groups.get(name), self._master.catalogue))

    def _sub_info(self, parameters: Parameters) -> dict[str, Any]:
        names = parameters.texts("groupName") or parameters.texts("consumeGroup")
        topics = set(parameters.texts("topicName"))
        return listed(
            [
                {"consumeGroup": group.name, "topicSet": sorted(group.topics), "consumerNum": len(group.consumers)}
                for group in self._groups()
                if (not names or group.name in names) and (not topics or topics & group.topics)
            ]
        )

    def _client_balance_groups(self, parameters: Parameters) -> dict[str, Any]:
        return listed([group.name for group in self._groups()])

    def _groups(self) -> list[Any]:
        return [self._master.groups[name] for name in sorted(self._master.groups)]

    # Changes

    def _add_topics(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("createUser")
        names = parameters.texts("topicName", required=True)
        existing = [name for name in names if self._master.catalogue.topic(name) is not None]
        return self._put_topics(parameters, names, refused=existing)

    def _modify_topics(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        return self._put_topics(parameters, self._existing_topics(parameters))

    def _existing_topics(self, parameters: Parameters) -> list[str]:
        names = parameters.texts("topicName", required=True)
        for name in names:
            if self._master.catalogue.topic(name) is None:
                raise AdminError(f"there is no topic {name}")
        return names

    def _put_topics(self, parameters: Parameters, names: list[str], refused: Sequence[str] = ()) -> dict[str, Any]:
        wanted = [self._wanted_topic(parameters, name) for name in names if name not in refused]
        for topic in wanted:  # a call that is refused changes no topic
            self._master.catalogue.check_topic(topic)
        for topic in wanted:
            self._topics.put_topic(topic)
        return self._changed(names, refused)

    def _wanted_topic(self, parameters: Parameters, name: str) -> TopicConfig:
        former = self._master.catalogue.topic(name) or TopicConfig(name)
        return TopicConfig(
            name,
            parameters.number("numTopicStores", former.stores),
            parameters.number("numPartitions", former.partitions),
            parameters.switch("acceptPublish", former.accept_publish),
            parameters.switch("acceptSubscribe", former.accept_subscribe),
            former.max_message_bytes,
            former.authorized_groups,
            former.allowed_tags,
        )

    def _delete_topics(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        names = self._existing_topics(parameters)
        for name in names:
            self._topics.remove_topic(name)
        return self._changed(names)

    def _consume_from_max(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        names = parameters.texts("groupName", required=True)
        done = [name for name in names if self._master.order_jump_to_end(name, self._clock())]
        if not done:
            raise AdminError("all consumer groups are not client balance groups")
        return listed([{"groupName": name} | DONE for name in done])

    def _set_group_rules(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("createUser")
        names = parameters.texts("groupName", required=True)
        status = parameters.number("statusId", -1)
        text = parameters.text("flowCtrlInfo", "[]")
        for name in names:
            self._rules.put(name, self._clock(), text=text, enabled=None if status < 0 else status == 1)
        return listed([{"groupName": name} | DONE for name in names])

    def _set_cluster_rules(self, parameters: Parameters) -> dict[str, Any]:
        """Of the cluster's settings, these servers support only the flow-control rules."""
        parameters.text("createUser")
        text = parameters.text("flowCtrlInfo", "[]")
        given = parameters.text("flowCtrlEnable", "")
        self._rules.put(CLUSTER, self._clock(), text=text, enabled=given.lower() == "true" if given else None)
        return listed([{"flowCtrlInfo": text}])

    def _reload_brokers(self, parameters: Parameters) -> dict[str, Any]:
        """TubeMQ's brokers get topic changes only with this call; brokers here have them at once."""
        parameters.text("modifyUser")
        parameters.text("brokerId")
        wanted = parameters.numbers("brokerId")
        hosts = {broker.info.broker_id: broker.info.host for broker in self._master.catalogue.brokers()}
        return listed(
            [
                {"brokerId": broker_id, "brokerIp": hosts.get(broker_id, "")}
                | (DONE if broker_id in hosts else refusal(401, "The broker configure not exist!"))
                for broker_id in wanted
            ]
        )

    def _changed(self, names: list[str], refused: Sequence[str] = ()) -> dict[str, Any]:
        return listed(
            [
                {"brokerId": broker.info.broker_id, "topicName": name}
                | (refusal(402, f"topic {name} exists already") if name in refused else DONE)
                for name in names
                for broker in self._master.catalogue.brokers()
            ]
        )
