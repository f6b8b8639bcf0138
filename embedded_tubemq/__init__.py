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
    from embedded_tubemq.cluster import (
        DEFAULT_TOKEN,
        Appended,
        ConnectionFault,
        EmbeddedTubeMQ,
        Faults,
        NewMessage,
        ServerTls,
        TopicConfig,
    )

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

if not TYPE_CHECKING:  # for type checkers a name that is not there is an error

    def __getattr__(name: str) -> object:
        """MissingPackage if the extra `embedded` is not installed."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tubeclient.extras import brought_by

        with brought_by("embedded"):
            import aiohttp  # noqa: F401
            import numpy  # noqa: F401

        value = globals()[name] = getattr(importlib.import_module("embedded_tubemq.cluster"), name)
        return value


def __dir__() -> list[str]:
    return __all__
