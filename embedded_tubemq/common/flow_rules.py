"""Flow-control rules as the master keeps them: texts with versions, one for the cluster and one for each group.

These servers hold nobody up. The master hands the texts to clients, who follow them.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from embedded_tubemq.common.admin import AdminError

__all__ = ["CLUSTER", "FlowRuleTexts"]

CLUSTER = ""
"""Stands for the cluster where a group's name could be."""

_QUERY_PRIORITY = 301
"""What a group has that was given no other (TServerConstants.QRY_PRIORITY_DEF_VALUE)."""


class _Text(NamedTuple):
    version: int
    enabled: bool = False
    text: str = "[]"


class FlowRuleTexts:
    """All rule texts; each change gives a text a version it did not have before."""

    def __init__(self) -> None:
        self._texts: dict[str, _Text] = {}

    def put(self, owner: str, now_ms: int, *, text: str | None = None, enabled: bool | None = None) -> None:
        """Change what is not None of a group's rules, or of the CLUSTER's. AdminError for a text that is no list in
        JSON; what is in the list is looked at by clients only.

        Rules that were never enabled are not handed out; clients go on with those they have where they no longer are.
        """
        if text is not None:
            _check(text)
        former = self._texts.get(owner, _Text(0))
        self._texts[owner] = _Text(
            max(former.version + 1, now_ms),
            former.enabled if enabled is None else enabled,
            former.text if text is None else text,
        )

    def add_to(self, orders: Any, group: str, known: Any) -> None:
        """Fill in an OpsTaskInfo for a client of `group` that knows the versions in the OpsTaskInfo `known`."""
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


def _check(text: str) -> None:
    try:
        rules = json.loads(text)
    except ValueError as error:
        raise AdminError(f"flowCtrlInfo is no JSON: {error}") from error
    if not isinstance(rules, list) or not all(isinstance(rule, dict) and "type" in rule for rule in rules):
        raise AdminError('flowCtrlInfo must be a list, as in [{"type": 1, "rule": [{"zeroCnt": 3, "freqInMs": 300}]}]')
