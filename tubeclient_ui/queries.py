"""The query of an address: all that a view shows is in it, so that the address opens the same view again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tubeclient.errors import ConfigurationError
from tubeclient.keys import PartitionKey, is_plain_number
from tubeclient.names import checked_tags
from tubeclient_ui.filters import MessageFilter
from tubeclient_ui.search import SearchFor

__all__ = ["FORMAT", "SEARCH", "SETTINGS", "Query", "search_for"]

SEARCH: Final = ("topic", "partition", "from", "until", "tag", "text", "regex", "path", "id", "order", "packs")
"""The names of what says which messages to search."""
SETTINGS: Final = ("format", "schema", "separator", "escape", "encoding", "time-zone", "rescue")
"""Those of a format, as ingest's file names them."""
FORMAT: Final = (*SETTINGS, "format-options", "descriptor")
"""All that a query says of a format: the last ones are lines of NAME=VALUE, and base64 of Protobuf's descriptor."""
_LONGEST: Final = 20_000
"""Characters of a value. The places of a search go on in JSON."""


class Query:
    """The values of a query, which anybody may have written. ConfigurationError for those that cannot be used."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def text(self, name: str, default: str = "") -> str:
        value = self._given.get(name, "").strip() or default
        if len(value) > _LONGEST:
            raise ConfigurationError(f"{name} has more than {_LONGEST} characters")
        return value

    def some(self, names: Iterable[str]) -> dict[str, str]:
        """The texts of those names that have any."""
        return {name: text for name in names if (text := self.text(name))}

    def number(self, name: str, default: int, most: int) -> int:
        """A number from 0 to `most`; larger ones are `most`."""
        text = self.text(name, str(default))
        if not is_plain_number(text):
            raise ConfigurationError(f"{name} is {text[:20]!r}; write a whole number")
        return min(int(text), most)

    @property
    def page(self) -> int:
        return self.number("page", 0, 1 << 31)

    def all(self) -> dict[str, str]:
        """All but the language, which has a cookie."""
        return {name: value for name, value in self._given.items() if name != "lang"}


def search_for(query: Query) -> SearchFor:
    """What the form of messages asks for. ConfigurationError."""
    key = PartitionKey.parse(text) if (text := query.text("partition")) else None
    topic = query.text("topic") if key is None else key.topic
    return SearchFor(
        topic,
        key,
        start=query.text("from", "earliest"),
        end=query.text("until", "latest"),
        newest_first=query.text("order", "newest") != "oldest",
        tags=checked_tags(topic, query.text("tag").split()),
        filter=MessageFilter(query.text("text"), query.text("regex"), query.text("path")),
        unpack=query.text("packs", "open") != "closed",
        most=max(1, query.number("most", 100, 1000)),
        most_bytes=max(1, query.number("mb", 64, 4096)) << 20,
        seconds=max(1, query.number("seconds", 30, 600)),
        message_id=query.number("id", 0, 1 << 63) if query.text("id") else None,
    )
