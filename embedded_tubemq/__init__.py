"""An embedded TubeMQ: master and brokers in one Python process, with TubeMQ's wire protocol.

    with EmbeddedTubeMQ(folder, [TopicConfig("flights", stores=2, partitions=4)]) as tube:
        consume_from(tube.master_address)

Or from a shell: `tubeclient server --data-dir DIR --topic flights:2:4`. For tests, demos and benchmarks: it is
one process without replication and flow control, so do not keep important data in it.
"""

from tubeclient.extras import brought_by

with brought_by("embedded"):
    import aiohttp  # noqa: F401
    import numpy  # noqa: F401

from embedded_tubemq.cluster import DEFAULT_TOKEN, EmbeddedTubeMQ
from embedded_tubemq.common.catalogue import TopicConfig
from embedded_tubemq.common.refusal import ConnectionFault, Faults
from embedded_tubemq.storage.store import Appended, NewMessage

__all__ = [
    "DEFAULT_TOKEN",
    "Appended",
    "ConnectionFault",
    "EmbeddedTubeMQ",
    "Faults",
    "NewMessage",
    "TopicConfig",
]
