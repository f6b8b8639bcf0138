"""The names of this process on a cluster."""

from __future__ import annotations

import os
import random
import socket
import time

from tubeclient._version import __version__


def host_name() -> str:
    """This machine's name, never blank: masters refuse a blank one."""
    return socket.gethostname() or "localhost"


def own_address() -> int:
    """This machine's IPv4 address as a signed 32-bit number, as on the wire."""
    try:
        packed = socket.inet_aton(socket.gethostbyname(host_name()))
    except (OSError, UnicodeError):  # the latter for a name that resolvers do not take
        packed = socket.inet_aton("127.0.0.1")
    return int.from_bytes(packed, "big", signed=True)


def new_client_id(group: str, label: str) -> str:
    """Return a client id that nobody else has, in the form of Apache's clients: group_host-pid-nanoTime-random-label-
    version.

    A broker knows the owner of a partition by this id alone, so two readers must never share one.
    """
    unique = random.SystemRandom().randrange(1 << 31)
    return f"{group}_{_this_process()}-{time.time_ns()}-{unique}-{label}-{__version__}"


def _this_process() -> str:
    host = host_name().replace("_", ".").replace("-", ".")
    return f"{host}-{os.getpid()}"
