"""The compiled core, where it is installed: it does what is done for each byte and message.

It takes what brokers and clients usually write, and answers None to anything else. Then the plain code decides, which
is all there is without the core. So both give the same for any bytes.
"""

from __future__ import annotations

import logging
from types import ModuleType

from tubeclient._version import __version__

_log = logging.getLogger(__name__)


def _find() -> ModuleType | None:
    try:
        import tubeclient_core

        version = tubeclient_core.__version__
    except (ImportError, AttributeError):  # the latter in a clone without a build, whose folder of sources is found
        return None
    if version != __version__:
        _log.warning(
            "ignoring tubeclient_core %s, because it does not match pyspark-tubeclient %s", version, __version__
        )
        return None
    return tubeclient_core


CORE = _find()
