"""The source's options for a query on Apache's servers."""

from __future__ import annotations

from tests.apache.server import ApacheTubeMQ

__all__ = ["options"]


def options(apache: ApacheTubeMQ, topic: str, group: str, **more: object) -> dict[str, str]:
    """Two nodes of `group` on `topic`."""
    given = {
        "masterServers": apache.master_address,
        "masterWebPort": apache.master_web_port,
        "subscribe": topic,
        "consumerGroup": group,
        "sourceCount": 2,
        **more,
    }
    return {name: str(value) for name, value in given.items()}
