"""Saves the 30 s between a new topic on a broker and its publication by the TubeMQ master.

The wait is fixed in the master (its step "wait_sub"), without a setting. But if a broker registers while it is already
online, and reports its topics with the registration, the master publishes them at once; that happens after a master
restart. So once a broker has a new topic, this closes the broker's registration, with the RPC of a clean stop. The
broker's next heartbeat is answered "unknown, register again", and it does. In between, for at most one heartbeat
period, the master shows no topic of that broker.
"""

from __future__ import annotations

from typing import Final

from tests.apache.admin import AdminError
from tubeclient.errors import TubeError
from tubeclient.net.connection import Connection
from tubeclient.wire.envelope import encode_request
from tubeclient.wire.methods import MASTER
from tubeclient.wire.proto import master_pb2

# The number of the RPC "a broker leaves" (TubeMQ's MasterService.proto), which no client of ours sends otherwise.
_BROKER_CLOSE: Final = 9
_TIMEOUT_MS: Final = 5_000

# The step of a broker's state at the master in which it waits out the 30 s.
WAIT_SUBSCRIBE_STEP: Final = 4


def forget_broker(address: str, broker_id: int) -> None:
    """Makes the master at `address` drop the broker's registration; AdminError if it gives no answer in 5 s.

    What the answer says is not read: the caller watches the broker's state anyway, and may ask again.
    """
    # CloseRequestB2M has a producer's CloseRequestP2M's shape: one string, who leaves, as field 1.
    request = master_pb2.CloseRequestP2M(clientId=str(broker_id)).SerializeToString()
    try:
        connection = Connection(address, connect_timeout_ms=_TIMEOUT_MS, send_timeout_ms=_TIMEOUT_MS)
        try:
            stream = encode_request(MASTER, _BROKER_CLOSE, request, _TIMEOUT_MS)
            connection.submit(stream).result(_TIMEOUT_MS / 1000)
        finally:
            connection.close()
    except (TubeError, TimeoutError) as error:
        raise AdminError(f"master {address}: closing broker {broker_id}: {error}") from error
