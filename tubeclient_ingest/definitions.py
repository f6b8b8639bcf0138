"""Which streams an InLong group has, and what their records are: by files, or by InLong's Manager.

A table keeps the definition that its rows were written by. So a Manager that is down stops no stream that has a table.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from tubeclient.admin.inlong_manager import InlongManager, InlongManagerError
from tubeclient.conditions import error_text
from tubeclient.errors import ConfigurationError, TransportError
from tubeclient_ingest.group_settings import defines, fits, manager_of, of_stream
from tubeclient_ingest.inlong_definition import PROPERTY, change
from tubeclient_ingest.settings import IngestSettings
from tubeclient_ingest.table_by import REST, StreamId

_log = logging.getLogger(__name__)

_ASK_AGAIN_SECONDS: Final = 60.0


class Definitions:
    """Of the group of a job."""

    def __init__(self, settings: IngestSettings) -> None:
        self._settings = settings
        self._manager = manager_of(settings)
        self._known: dict[str, str] | None = None
        """What Manager said last, by stream; None if it has not answered yet."""
        self._why = ""
        self._ask_at = 0.0

    def changed(self) -> bool:
        """Ask Manager, unless it was asked a moment ago. Returns whether it says something else than before.

        A Manager that does not answer says nothing else, nor does one that refuses what it answered before.
        InlongManagerError if it refuses the first question, ConfigurationError if it has the group on another topic.
        """
        if self._manager is None or time.monotonic() < self._ask_at:
            return False
        self._ask_at = time.monotonic() + _ASK_AGAIN_SECONDS
        before = self._known
        try:
            if before is None:
                self._check_topic(self._manager)
            assert self._settings.inlong_group is not None
            self._known = self._manager.streams(self._settings.inlong_group)
        except (TransportError, InlongManagerError) as error:
            if before is None and isinstance(error, InlongManagerError):
                raise
            self._why = error_text(error)
            _log.warning("streams go on by the definitions that their tables keep: %s", self._why)
        return self._known != before

    def _check_topic(self, manager: InlongManager) -> None:
        assert self._settings.inlong_group is not None
        topic = manager.group(self._settings.inlong_group).topic
        if topic not in self._settings.topics:
            raise ConfigurationError(
                f"InLong's Manager has group {self._settings.inlong_group} on the topic {topic}, and the job reads"
                f" {', '.join(self._settings.topics)}; set topics to {topic}"
            )

    def defines(self, name: StreamId, *, before: bool = True) -> bool:
        """Whether it is known what records of the stream are, and it may have a table; `before` holds as long as
        Manager does not answer."""
        twins = [one for one in self._known or () if one.lower() == name.lower()]
        if not fits(self._settings, name, is_alone=self._manager is not None and len(twins) < 2):
            return False
        if self._manager is None:
            return defines(self._settings, name)
        return before if self._known is None else name in self._known

    def settings_of(self, name: StreamId, stored: str | None) -> IngestSettings:
        """The settings of a job for the stream alone; `kept` is the definition that its table keeps. ConfigurationError
        if the stream's new records do not mean what its old ones did."""
        if self._manager is None or name == REST:
            return of_stream(self._settings, name)
        new = None if self._known is None else self._known.get(name)
        if new is None and stored is None:
            why = self._why or f"InLong's Manager has no stream {name}"
            raise ConfigurationError(f"nobody says what its records are: {why}")
        if new is not None and stored is not None and (other := change(stored, new).other) is not None:
            raise ConfigurationError(
                f"its definition in InLong's Manager changed: {other}. To go on with the new one, take the property"
                f" {PROPERTY} from the table (ALTER TABLE ... UNSET TBLPROPERTIES); or name another target"
            )
        return of_stream(self._settings, name, stored if new is None else new)
