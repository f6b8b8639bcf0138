"""Settings of a Spark session for a while."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSION_ZONE: Final = "spark.sql.session.timeZone"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is a client of Spark Connect, which has no JVM."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@contextmanager
def session_confs(spark: SparkSession, confs: Mapping[str, str | None]) -> Iterator[None]:
    """Within it the session has these settings (None: it does not have it); after it those that it had before."""
    if is_connect(spark):
        given: Mapping[str, str | None] = spark.conf.getAll  # one question, where each `get` would be one
    else:
        given = {name: spark.conf.get(name, None) for name in confs}  # `getAll` asks for each setting three times
    before = {name: given.get(name) for name, value in confs.items() if given.get(name) != value}
    try:
        _set(spark, {name: confs[name] for name in before})
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, confs: Mapping[str, str | None]) -> None:
    for name, value in confs.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@contextmanager
def own_session(spark: SparkSession, confs: Mapping[str, str | None]) -> Iterator[SparkSession]:
    """A session with the settings of `spark`, overridden by `confs`, that changes nothing for whoever works in `spark`.

    A server of Spark Connect before 4.1 makes no such session. There it is `spark` itself, which has `confs` until the
    end.
    """
    from pyspark.errors import PySparkException

    if not is_connect(spark):
        own = spark.newSession()
        for name, value in spark.conf.getAll.items():
            with suppress(PySparkException):  # one that is the whole application's
                own.conf.set(name, value)
        own.catalog.setCurrentCatalog(spark.catalog.currentCatalog())
        own.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
        with session_confs(own, confs):
            yield own
        return
    _ = spark.conf.getAll  # the server has no session to clone before a client's first question
    try:
        cloned = spark.cloneSession()  # type: ignore[attr-defined]
    except (AttributeError, PySparkException):
        with session_confs(spark, confs):
            yield spark
        return
    try:
        with session_confs(cloned, confs):
            yield cloned
    finally:
        with suppress(Exception):  # `stop` would end a local server for all
            cloned.client.release_session()
            cloned.client.close()
