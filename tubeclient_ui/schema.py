"""The view that tries a schema on records, pasted or of a topic, and the same for each message of a search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from tubeclient.records.spec import BINARY
from tubeclient.settings import ClientSettings
from tubeclient_ui.queries import FORMAT, SEARCH, Query, search_for
from tubeclient_ui.search import Searches
from tubeclient_ui.spark import Spark
from tubeclient_ui.typed import Typed, format_settings, pasted, settings_file, typed

if TYPE_CHECKING:
    from tubeclient_ui.app import Options

__all__ = ["SchemaTrial"]

_LIMITS: Final = {"most": "100", "mb": "16", "seconds": "10"}
"""Of what is read of a topic."""


class SchemaTrial:
    """Tries schemas. Spark starts with the first one that it has to parse."""

    def __init__(self, settings: ClientSettings, searches: Searches, spark: Spark, options: Options) -> None:
        self._settings, self._searches, self._spark, self._options = settings, searches, spark, options

    def view(self, query: Query) -> dict[str, Any]:
        """What the query's schema makes of its records."""
        rows = None
        if query.text("topic") and self._options.with_messages:
            asked = query.some(SEARCH) | _LIMITS
            found = self._searches.read(search_for(Query(asked)), asked).found
            rows = [row for each in list(found) for row in each.rows]
        elif not query.some(("schema", "descriptor", "records")):
            return {"typed": None}
        return {"typed": self.typed(query, rows)}

    def typed(self, query: Query, rows: list[dict[str, Any]] | None) -> Typed:
        """What the query's schema makes of these messages of a topic, as they may be shown; or of the query's own."""
        settings = format_settings(query)
        make = settings.record_format
        is_parsed = settings.kind in BINARY and (settings.kind == "avro" or not settings.schema)
        key = ("schema", *map(query.text, FORMAT))
        made = make() if is_parsed else self._spark.result(key, lambda _: make())
        return typed(made, pasted(query, settings)) if rows is None else typed(made, rows, self._options.masks)

    def file(self, query: Query) -> Response:
        """The settings file, to download."""
        is_unpacked = query.text("topic") and query.text("packs") != "closed"
        source = {"masterWebPort": self._settings.master_web_port, **({"payload": "auto"} if is_unpacked else {})}
        text = settings_file(query, source, ",".join(self._settings.master_servers))
        headers = {"Content-Disposition": 'attachment; filename="ingest.toml"'}
        return Response(text, media_type="application/toml", headers=headers)
