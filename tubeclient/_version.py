"""The project's version, which setup.py reads from here, and a check of Python's: each package imports this first."""

import sys

__version__ = "0.1.0"

# pip refuses an older Python; a folder on PYTHONPATH or an archive for executors does not. Elsewhere it would be a
# syntax error, or a name that `typing` lacks.
if sys.version_info < (3, 11):  # noqa: UP036
    error = ImportError(
        "[NEEDS_NEWER_PYTHON] {} is Python {}.{}, but pyspark-tubeclient needs 3.11 or newer, on the driver and on "
        "all executors".format(sys.executable, *sys.version_info[:2])
    )
    error.condition = "NEEDS_NEWER_PYTHON"
    raise error
