"""The web calls of masters and brokers for users: topics, brokers, groups, and positions of groups."""

from tubeclient.admin.answers.model import (
    BrokerState,
    DeployedTopic,
    GroupDetail,
    GroupKind,
    GroupMember,
    GroupOffsets,
    GroupSummary,
    ManageStatus,
    PartitionPosition,
    RunStatus,
    TopicOnBroker,
    TopicStatus,
)
from tubeclient.admin.client import Admin

__all__ = [
    "Admin",
    "BrokerState",
    "DeployedTopic",
    "GroupDetail",
    "GroupKind",
    "GroupMember",
    "GroupOffsets",
    "GroupSummary",
    "ManageStatus",
    "PartitionPosition",
    "RunStatus",
    "TopicOnBroker",
    "TopicStatus",
]
