"""The web calls of masters and brokers for users: topics, brokers, groups, and positions of groups."""

from tubeclient.admin.answers import (
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupMember,
    GroupOffsets,
    GroupSummary,
    PartitionPosition,
    TopicOnBroker,
)
from tubeclient.admin.client import Admin

__all__ = [
    "Admin",
    "BrokerState",
    "DeployedTopic",
    "GroupDetail",
    "GroupMember",
    "GroupOffsets",
    "GroupSummary",
    "PartitionPosition",
    "TopicOnBroker",
]
