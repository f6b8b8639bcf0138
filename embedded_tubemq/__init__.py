"""An embedded TubeMQ: master and brokers in one Python process, with TubeMQ's wire protocol.

    with EmbeddedTubeMQ(folder, [TopicConfig("flights", stores=2, partitions=4)]) as tube:
        consume_from(tube.master_address)

Or from a shell: `tubeclient server --data-dir DIR --topic flights:2:4`. For tests, demos and benchmarks: it is
one process without replication and flow control, so do not keep important data in it. `embedded_tubemq.pytest_plugin`
has fixtures for pytest.

Each name is imported on first use: pytest loads the plugin in every project, also without the extra `embedded`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from embedded_tubemq.cluster import DEFAULT_TOKEN, EmbeddedTubeMQ
    from embedded_tubemq.common.catalogue import TopicConfig
    from embedded_tubemq.common.faults import ConnectionFault, Faults
    from embedded_tubemq.net.tls import ServerTls
    from embedded_tubemq.storage.store import Appended, NewMessage

__all__ = [
    "DEFAULT_TOKEN",
    "Appended",
    "ConnectionFault",
    "EmbeddedTubeMQ",
    "Faults",
    "NewMessage",
    "ServerTls",
    "TopicConfig",
]

_HOMES = {
    "DEFAULT_TOKEN": "embedded_tubemq.cluster",
    "Appended": "embedded_tubemq.storage.store",
    "ConnectionFault": "embedded_tubemq.common.faults",
    "EmbeddedTubeMQ": "embedded_tubemq.cluster",
    "Faults": "embedded_tubemq.common.faults",
    "NewMessage": "embedded_tubemq.storage.store",
    "ServerTls": "embedded_tubemq.net.tls",
    "TopicConfig": "embedded_tubemq.common.catalogue",
}


if not TYPE_CHECKING:  # for type checkers a name that is not there is an error

    def __getattr__(name: str) -> object:
        """MissingPackage if the extra `embedded` is not installed."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tubeclient.extras import brought_by

        with brought_by("embedded"):
            import aiohttp  # noqa: F401
            import numpy  # noqa: F401

        value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return value


def __dir__() -> list[str]:
    return __all__
