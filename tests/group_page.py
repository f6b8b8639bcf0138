"""A group as shown by the master's HTTP page, Apache's or the embedded one's."""

from __future__ import annotations

from tubeclient import Admin, ClientSettings

__all__ = ["group_page"]


def group_page(master_web_port: int, group: str) -> dict[int, list[str]]:
    """The nodes of the group, and the partition keys that each reported, sorted; {} for a group without members."""
    admin = Admin(ClientSettings(("127.0.0.1:8715",), master_web_port=master_web_port))
    return {
        member.node_id: [str(key) for key in member.partitions]
        for member in admin.group(group).members
        if member.node_id is not None
    }
