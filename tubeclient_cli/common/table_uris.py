"""Where tables are, their paths and URIs, and how long their stores may take. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from tubeclient.errors import ConfigurationError
from tubeclient.passwords import is_utf8

__all__ = ["HADOOPS_S3", "is_within", "limited", "overlap"]

HADOOPS_S3: Final = ("s3a", "s3n")
"""URI schemes of Hadoop for what delta-rs names s3."""

_LIMITS: Final = {"connect_timeout": "3s", "timeout": "12s", "max_retries": "3", "retry_timeout": "4s"}
"""Names and values of object_store. With these a store that does not answer is known after 12 s, and one that cannot be
connected to after 6 s; what fails at once is tried again."""


def limited(uri: str, storage_options: Mapping[str, str]) -> dict[str, str]:
    """The storage options of somebody who waits at a terminal or a page; those that are given stay. ConfigurationError
    for a blank `uri`, as an unset variable is: it would be the working directory; and for one that is no text."""
    if not uri.strip():
        raise ConfigurationError("the path of a table is blank; name its folder")
    if not is_utf8(uri):
        raise ConfigurationError(f"the path {uri!r} is not UTF-8, and tables have no other; rename its folder")
    if "://" not in uri or uri.lower().startswith("file:"):
        return dict(storage_options)
    given = {name.lower() for name in storage_options}
    return {**{name: value for name, value in _LIMITS.items() if name not in given}, **storage_options}


def overlap(one: str, other: str) -> bool:
    """Whether one of two paths or URIs is the other's folder or within it, as far as their texts tell."""
    return is_within(one, other) or is_within(other, one)


def is_within(inner: str, outer: str) -> bool:
    """Whether a path or URI is the folder `outer` or within it, as far as their texts tell."""
    return _plain(inner).startswith(_plain(outer))


def _plain(place: str) -> str:
    place = place.strip()
    if place.lower().startswith("file:"):
        place = "/" + place[len("file:") :].lstrip("/")
    scheme, mark, rest = place.partition("://")
    scheme = "s3" if scheme.lower() in HADOOPS_S3 else scheme.lower()
    whole = f"{scheme}{mark}{rest}" if mark else os.path.abspath(place)
    return f"{whole.rstrip('/')}/"
