"""What `ingest` asks the masters before Spark starts, so that a typo in a topic or an address is an error at once."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from spark_source.cluster.cluster import TubeCluster, check_scope
from spark_source.options.access import client_settings
from spark_source.options.given import parse_options
from tubeclient.errors import TubeError
from tubeclient_cli.common.deadline import within
from tubeclient_ingest.settings import IngestSettings

__all__ = ["look_first"]

_log = logging.getLogger(__name__)

_SECONDS: Final = 9.0
_PATIENCE_MS: Final = 2_000
"""For other clients of the reader groups."""

_CERTAIN: Final = frozenset(
    {"TOPIC_NOT_FOUND", "MASTER_UNREACHABLE", "NOT_TUBEMQ", "AUTHENTICATION_FAILED", "FILE_NOT_READABLE"}
)


def look_first(settings: IngestSettings, within_s: float = _SECONDS) -> None:
    """Raise what the job would raise for its masters and topics: a TubeError. It is one question to a master.

    Only what is certain and the user's to mend is raised. No answer within `within_s`, and everything else, is left to
    the job.
    """
    options = parse_options(settings.options("earliest"))

    def look() -> None:
        access = client_settings(options)
        access = replace(access, retry_limit_ms=min(access.retry_limit_ms, _PATIENCE_MS))
        check_scope(options, TubeCluster(access, options).fetch_view())

    try:
        within(within_s, look)
    except TubeError as error:
        if error.condition in _CERTAIN:
            raise
    except Exception as error:
        _log.debug("the look before Spark starts came to nothing: %s", error)
