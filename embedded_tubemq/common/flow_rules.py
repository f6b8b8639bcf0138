"""Flow-control rules on the master: texts with versions, one for the cluster and one per group.

These servers do not throttle anybody. The master passes the texts to clients, which follow them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["CLUSTER", "FlowRuleTexts"]

CLUSTER = ""
"""Stands for the cluster in place of a group's name."""

_QUERY_PRIORITY = 301
"""A group's default (TServerConstants.QRY_PRIORITY_DEF_VALUE)."""


class _Text(NamedTuple):
    version: int
    enabled: bool = False
    text: str = "[]"


class FlowRuleTexts:
    """All rule texts; each change gives a text a new version."""

    def __init__(self) -> None:
        self._texts: dict[str, _Text] = {}

    def put(self, owner: str, now_ms: int, *, text: str | None = None, enabled: bool | None = None) -> None:
        """Change the rules of a group or of the CLUSTER; None leaves a value unchanged. Only clients check the text.

        Rules that were never enabled are not handed out. If rules are disabled later, clients keep those they have.
        """
        former = self._texts.get(owner, _Text(0))
        self._texts[owner] = _Text(
            max(former.version + 1, now_ms),
            former.enabled if enabled is None else enabled,
            former.text if text is None else text,
        )

    def add_to(self, orders: Any, group: str, known: Any) -> None:
        """Fill in an OpsTaskInfo for a client of `group`; `known` holds the versions that the client has."""
        text = self._texts.get(CLUSTER)
        if text is not None and text.enabled:
            orders.defFlowCheckId = text.version
            if known.defFlowCheckId != text.version:
                orders.defFlowControlInfo = text.text
        text = self._texts.get(group)
        if text is not None and text.enabled:
            orders.groupFlowCheckId, orders.qryPriorityId = text.version, _QUERY_PRIORITY
            if known.groupFlowCheckId != text.version:
                orders.groupFlowControlInfo = text.text
