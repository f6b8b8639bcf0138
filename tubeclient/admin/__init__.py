"""The web calls of masters and brokers for users: topics, brokers, groups, and positions of groups."""

from tubeclient.admin.client import Admin
from tubeclient.admin.model import (
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupMember,
    GroupOffsets,
    GroupSummary,
    PartitionPosition,
    TopicOnBroker,
)

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
