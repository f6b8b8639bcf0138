"""What Spark pickles for its tasks. Where this package is missing, an executor says so in one line.

Pickle names a class by its module. A Python without that module fails with "No module named 'spark_source'" below a
traceback, and no code of this package can run there to say more. So these objects arrive as a text for Python's own
`eval`, which first looks for the package.

This module imports nothing of this project: Spark's search for data sources imports it.
"""

from __future__ import annotations

import pickle
from typing import Any, Final

from pyspark import cloudpickle

from spark_source.boundary import as_one_line, show_log

__all__ = ["SentToTasks", "arrived"]

_ARRIVE: Final = """
__import__("importlib").import_module("spark_source.sent").arrived(sent)
if __import__("importlib.util").util.find_spec("spark_source")
else __import__("os").environ.update(SPARK_HIDE_TRACEBACK="1")
or (_ for _ in ()).throw(ModuleNotFoundError(
    "[PACKAGE_MISSING] pyspark-tubeclient is not installed in the Python of executor "
    + __import__("socket").gethostname() + ", " + __import__("sys").executable + ". Install it there with pip, or send "
    "an environment that has it with spark.archives, and set PYSPARK_PYTHON to its Python before the driver starts"
))
"""
"""An expression, because `eval` takes no statements. SPARK_HIDE_TRACEBACK is as in `boundary`."""


class SentToTasks:
    """Base of what Spark sends with every task. `__getstate__` says what of it."""

    def __reduce__(self) -> tuple[Any, ...]:
        sent: bytes = cloudpickle.dumps((type(self), self.__getstate__()))  # type: ignore[no-untyped-call]
        return eval, (f"({_ARRIVE.strip()})", {"sent": sent})


@as_one_line()
def arrived(sent: bytes) -> object:
    """The object that was pickled."""
    show_log()
    kind, state = pickle.loads(sent)  # noqa: S301 - of Spark's own pickle, which comes from the driver
    made = kind.__new__(kind)
    vars(made).update(state or {})
    return made
