"""Where tables are: their paths and URIs. Pure."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["HADOOPS_S3", "overlap"]

HADOOPS_S3: Final = ("s3a", "s3n")
"""URI schemes of Hadoop for what delta-rs names s3."""


def overlap(one: str, other: str) -> bool:
    """Whether one of two paths or URIs is the other's folder or within it, as far as their texts tell."""
    first, second = _plain(one), _plain(other)
    return first.startswith(second) or second.startswith(first)


def _plain(place: str) -> str:
    place = place.strip()
    if place.lower().startswith("file:"):
        place = "/" + place[len("file:") :].lstrip("/")
    scheme, mark, rest = place.partition("://")
    scheme = "s3" if scheme.lower() in HADOOPS_S3 else scheme.lower()
    whole = f"{scheme}{mark}{rest}" if mark else os.path.abspath(place)
    return f"{whole.rstrip('/')}/"
