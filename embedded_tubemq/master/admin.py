"""The master's HTTP calls, as functions from parameters to JSON.

The JSON has the form of TubeMQ's WebOtherInfoHandler, WebBrokerConfHandler and WebTopicDeployHandler, with the fields
that Admin reads. Queries need no token; changes need the master's token.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any

from embedded_tubemq.common.admin import AdminError, Parameters, failed, listed, succeeded
from embedded_tubemq.common.catalogue import BrokerState, TopicConfig
from embedded_tubemq.master.groups import ConsumerGroup
from embedded_tubemq.master.master import Master
from tubeclient.errors import ConfigurationError

__all__ = ["MasterAdmin"]

_DONE: dict[str, Any] = {"success": True, "errCode": 200, "errInfo": "Ok!"}
_NOTHING = "-"  # a field without a value


class MasterAdmin:
    """The calls of one master. `put_topic` creates a topic, or lets it grow; `clock` gives ms."""

    def __init__(
        self, master: Master, put_topic: Callable[[TopicConfig], None], token: str, clock: Callable[[], int]
    ) -> None:
        self._master = master
        self._catalogue = master.catalogue
        self._put_topic = put_topic
        self._token = token
        self._clock = clock
        self._queries: dict[str, Callable[[Parameters], dict[str, Any]]] = {
            "admin_query_broker_run_status": lambda _: listed(list(map(_broker_json, self._catalogue.brokers()))),
            "admin_query_topic_info": self._topic_info,
            "admin_query_consume_group_detail": self._group_detail,
            "admin_query_sub_info": self._sub_info,
            "admin_query_client_balance_group_set": lambda _: listed(sorted(self._master.groups)),
        }
        self._changes: dict[str, Callable[[Parameters], dict[str, Any]]] = {
            "admin_add_new_topic_record": self._add_topics,
            "admin_modify_topic_info": self._modify_topics,
            "admin_reload_broker_configure": self._reload_brokers,
            "admin_set_client_balance_group_consume_from_max": self._consume_from_max,
            "admin_set_group_flow_control_rule": self._set_group_rules,
        }

    def call(self, parameters: Parameters) -> dict[str, Any]:
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
        except (AdminError, ConfigurationError) as error:
            return failed(error)

    # Queries

    def _topic_info(self, parameters: Parameters) -> dict[str, Any]:
        names = parameters.texts("topicName")
        topics = [topic for topic in self._catalogue.topics() if not names or topic.name in names]
        return listed(
            [
                {
                    "topicName": topic.name,
                    "maxMsgSizeInMB": max(1, topic.max_message_bytes >> 20),
                    "topicInfo": [_deployed_json(topic, broker) for broker in self._catalogue.brokers()],
                }
                for topic in topics
            ]
        )

    def _group_detail(self, parameters: Parameters) -> dict[str, Any]:
        name = parameters.text("groupName")
        group = self._master.groups.get(name)
        return succeeded(
            consumeGroup=name,
            isBandConsume="client-rebalance" if group is not None else "unbound",
            topicSet=sorted(group.topics) if group is not None else [],
            filterConds={topic: sorted(tags) for topic, tags in group.filters.items()} if group is not None else {},
            data=self._members_json(group) if group is not None else [],
        )

    def _members_json(self, group: ConsumerGroup) -> list[dict[str, Any]]:
        brokers = {broker.info.broker_id: str(broker.info) for broker in self._catalogue.brokers()}
        return [
            {
                "consumerId": member.client_id,
                "receivedFrom": member.peer.address.rpartition(":")[0],
                "isOverTLS": member.peer.tls,
                "sourceCount": member.source_count,
                "nodeId": member.node_id,
                "parInfo": [
                    {"partId": key.partition_id, "brokerAddr": brokers[key.broker_id], "topicName": key.topic}
                    for key in member.partitions
                    if key.broker_id in brokers
                ],
            }
            for _, member in sorted(group.consumers.items())
        ]

    def _sub_info(self, parameters: Parameters) -> dict[str, Any]:
        return listed(
            [
                {"consumeGroup": name, "topicSet": sorted(group.topics), "consumerNum": len(group.consumers)}
                for name, group in sorted(self._master.groups.items())
            ]
        )

    # Changes

    def _add_topics(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("createUser")
        names = parameters.texts("topicName", required=True)
        existing = [name for name in names if self._catalogue.topic(name) is not None]
        return self._put_topics(parameters, names, refused=existing)

    def _modify_topics(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        names = parameters.texts("topicName", required=True)
        for name in names:
            if self._catalogue.topic(name) is None:
                raise AdminError(f"there is no topic {name}")
        return self._put_topics(parameters, names)

    def _put_topics(self, parameters: Parameters, names: list[str], refused: Sequence[str] = ()) -> dict[str, Any]:
        wanted = [self._wanted_topic(parameters, name) for name in names if name not in refused]
        for topic in wanted:  # a call that is refused changes no topic
            self._catalogue.check_topic(topic)
        for topic in wanted:
            self._put_topic(topic)
        return self._changed(names, refused)

    def _wanted_topic(self, parameters: Parameters, name: str) -> TopicConfig:
        former = self._catalogue.topic(name) or TopicConfig(name)
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

    def _consume_from_max(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("modifyUser")
        names = parameters.texts("groupName", required=True)
        done = [name for name in names if self._master.order_jump_to_end(name, self._clock())]
        if not done:
            raise AdminError("all consumer groups are not client balance groups")
        return listed([{"groupName": name} | _DONE for name in done])

    def _set_group_rules(self, parameters: Parameters) -> dict[str, Any]:
        parameters.text("createUser")
        names = parameters.texts("groupName", required=True)
        status = parameters.number("statusId", -1)
        text = parameters.text("flowCtrlInfo", "[]")
        for name in names:
            self._catalogue.put_flow_rules(name, self._clock(), text, None if status < 0 else status == 1)
        return listed([{"groupName": name} | _DONE for name in names])

    def _reload_brokers(self, parameters: Parameters) -> dict[str, Any]:
        """TubeMQ's brokers get topic changes only with this call; brokers here have them at once."""
        parameters.text("modifyUser")
        return listed(
            [
                {"brokerId": broker_id}
                | (_DONE if self._catalogue.broker(broker_id) else _refusal(401, "The broker configure not exist!"))
                for broker_id in parameters.numbers("brokerId")
            ]
        )

    def _changed(self, names: list[str], refused: Sequence[str] = ()) -> dict[str, Any]:
        return listed(
            [
                {"brokerId": broker.info.broker_id, "topicName": name}
                | (_refusal(402, f"topic {name} exists already") if name in refused else _DONE)
                for name in names
                for broker in self._catalogue.brokers()
            ]
        )


def _refusal(code: int, text: str) -> dict[str, Any]:
    return {"success": False, "errCode": code, "errInfo": text}


def _broker_json(broker: BrokerState) -> dict[str, Any]:
    info, online = broker.info, broker.online
    return {
        "brokerId": info.broker_id,
        "brokerIp": info.host,
        "brokerPort": info.port,
        "brokerWebPort": broker.web_port,
        "brokerTLSPort": broker.tls_port,
        "manageStatus": "online",
        "runStatus": "running" if online else "unRegister",
        "enableTLS": broker.tls_port > 0 if online else _NOTHING,
        # TubeMQ writes these as text.
        "acceptPublish": "true" if online else _NOTHING,
        "acceptSubscribe": "true" if online else _NOTHING,
    }


def _deployed_json(topic: TopicConfig, broker: BrokerState) -> dict[str, Any]:
    sizes = {"numPartitions": topic.partitions, "numTopicStores": topic.stores}
    accepted = {"acceptPublish": topic.accept_publish, "acceptSubscribe": topic.accept_subscribe}
    return {
        "topicName": topic.name,
        "brokerId": broker.info.broker_id,
        "brokerIp": broker.info.host,
        "brokerPort": broker.info.port,
        "topicStatusId": 0,
        **sizes,
        **accepted,
        "runInfo": sizes | accepted if broker.online else dict.fromkeys((*sizes, *accepted), _NOTHING),
    }
