"""A group as the master's own page shows it, Apache's or the embedded one's."""

from __future__ import annotations

from tubeclient.net.http import query_master

__all__ = ["group_page"]


def group_page(master_web_port: int, group: str) -> dict[int, list[str]]:
    """The nodes of the group, and the partition keys that each reported, sorted; {} for a group without members."""
    address = f"127.0.0.1:{master_web_port}"
    answer = query_master(address, "admin_query_consume_group_detail", 2_000, groupName=group)
    return {
        int(node["nodeId"]): sorted(
            f"{part['brokerAddr'].partition(':')[0]}:{part['topicName']}:{part['partId']}" for part in node["parInfo"]
        )
        for node in answer.get("data", ())
    }
