"""Settings of a session that hold for a while."""

from __future__ import annotations

from typing import Any

import pytest

from spark_source.session_confs import session_confs


class Session:
    """Stands in for Spark's session, and for its `conf`."""

    def __init__(self) -> None:
        self.confs = {"a": "1"}
        self.conf = self

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self.confs)

    def set(self, name: str, value: str) -> None:
        self.confs[name] = value

    def unset(self, name: str) -> None:
        self.confs.pop(name, None)


def test_settings_are_as_before_also_after_an_error() -> None:
    spark: Any = Session()
    with session_confs(spark, {"a": "2", "b": "3"}):
        assert spark.confs == {"a": "2", "b": "3"}
    assert spark.confs == {"a": "1"}
    with pytest.raises(OSError, match="dry"), session_confs(spark, {"b": "3"}):
        raise OSError("dry")
    assert spark.confs == {"a": "1"}
