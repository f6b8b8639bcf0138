"""Texts of others, such as names of groups and words of servers, as they may be shown."""

from __future__ import annotations

import re
from typing import Final

_S3: Final = r"s3[an]?"
"""Schemes of which Hadoop takes secrets with slashes, and whose hosts have no port."""
_PASSWORD: Final = re.compile(rf"\b({_S3}://)\S*:\S*@|(://)[^\s/:@]*:(?!\d{{1,5}}/)\S*@", re.IGNORECASE)
_QUERY: Final = re.compile(r"(://[^\s?]*)\?[^\s'\"`]*")


def printable(text: str) -> str:
    """The text with all that is not printable as an escape, such as `\\x1b`: a terminal obeys control characters,
    wherever they come from. Tabs stay."""
    return "".join(char if char.isprintable() or char == "\t" else ascii(char)[1:-1] for char in text)


def without_passwords(text: str) -> str:
    """The text without user and password, and without query, of each URI in it."""
    return _QUERY.sub(r"\1", _PASSWORD.sub(r"\1\2", text))


def display_uri(uri: str) -> str:
    """Scheme, host and path of a URI, whatever else is in it: users, passwords and queries hold secrets. Of Azure's the
    container, too."""
    scheme, mark, rest = uri.partition("://")
    if not mark:
        return uri
    bare = rest.partition("?")[0]
    if "@" in rest[len(bare) :]:  # a query, or a password with such a sign
        return f"{scheme}://***"
    user, _, place = bare.rpartition("@")
    kind = re.split(r"\W", scheme)[-1].lower()  # it may stand in SQL
    has_port = re.match(r"[^/:@]*:\d{1,5}/", bare) and not re.fullmatch(_S3, kind)
    is_user = "/" not in user and not kind.startswith(("abfs", "wasb"))
    return f"{scheme}://{place if is_user or (':' in user and not has_port) else bare}"


def counted(number: int, noun: str) -> str:
    """A number of things, as people write it: 1 client, 2,000 clients."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
