"""Generated packs: what goes in, to be compared with what comes out."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import strategies as st

__all__ = ["GROUPS", "OWN_GROUPS", "Group", "attribute_maps"]

# What Java's `=` and `&` split texts can hold: anything but these two, and no half of a surrogate pair.
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="=&"), max_size=12)
_KEYS = _TEXTS.filter(lambda key: key not in ("", "t", "dt", "groupId", "streamId"))
_TIMES_MS = st.integers(0, 4_000_000_000_000)
_BODIES = st.one_of(st.binary(max_size=40), st.binary(min_size=1, max_size=3).map(lambda part: part * 200))


class Group(NamedTuple):
    """Attributes, and the records that share them."""

    attributes: dict[str, str]
    bodies: list[bytes]
    own: list[dict[str, str]]
    """As many as bodies where records have attributes of their own; else empty."""


def attribute_maps() -> st.SearchStrategy[dict[str, str]]:
    """Attributes with the three that InLong asks for."""
    return st.builds(
        lambda more, group, stream, time_ms: {"groupId": group, "streamId": stream, "dt": str(time_ms), **more},
        st.dictionaries(_KEYS, _TEXTS, max_size=3),
        _TEXTS,
        _TEXTS,
        _TIMES_MS,
    )


def _by_attributes(group: Group) -> str:
    return repr(sorted(group.attributes.items()))


GROUPS = st.lists(
    st.builds(Group, attribute_maps(), st.lists(_BODIES, max_size=8), st.just([])),
    max_size=4,
    unique_by=_by_attributes,
)
"""For versions 1 and 2, where Apache's parser keeps the last of two groups with equal attributes only."""

OWN_GROUPS = st.lists(
    st.lists(
        st.tuples(_BODIES.filter(bool), st.dictionaries(_KEYS, _TEXTS, min_size=1, max_size=2)), min_size=1, max_size=6
    ),
    max_size=3,
).flatmap(
    lambda groups: st.tuples(*(attribute_maps() for _ in groups)).map(
        lambda maps: [
            Group(own, [body for body, _ in records], [more for _, more in records])
            for own, records in zip(maps, groups, strict=True)
        ]
    )
)
"""For version 3. Apache's parser takes no empty bodies nor empty attributes there."""
