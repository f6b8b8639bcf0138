"""A SparkSession that finds this source: its workers have this process's Python, and Delta is there if it is installed.

Notebooks and scripts call `session`. Commands share its parts: see `tubeclient_cli.common.session`.
"""

from __future__ import annotations

import atexit
import builtins
import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from spark_source.session_confs import is_connect
from spark_source.spark_log import SparkLog, start_failure
from tubeclient.errors import ConfigurationError
from tubeclient.extras import brought_by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


REDACTION_REGEX: Final = "(?i)secret|password|passwd|token|access.?key|credential|storageoption"
"""Options and settings with matching names are hidden in plans and in the UI. Spark's own default shows each
`storageOption.*` that is not called secret, token or password."""

STARTING_SPARK: Final = "starting Spark, which takes 10 to 60 s; the first start on a machine downloads Delta's jars"
"""What is told whoever waits."""

_LEAST_SPARK: Final = 4
_PYTHON_SECONDS: Final = 20.0
_PYTHON_VARIABLES: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON")
"""In the order in which Spark takes them to look for data sources, and to run them."""

_CONFS: Final = {
    "spark.redaction.regex": REDACTION_REGEX,
    # A stop that hangs in the query's thread must not hang the job.
    "spark.sql.streaming.stopTimeout": "30s",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # At WARN Spark logs each batch that is slower than the trigger, and a stack trace at each stop.
    "spark.log.level": "ERROR",
}

_DELTA_CONFS: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    # A round with MERGE compiles some 110 classes. With Spark's 100 it compiles half of them again in each round.
    "spark.sql.codegen.cache.maxEntries": "1000",
}

_LOCAL_CONFS: Final = {
    # The executors are in the driver's process, so nobody else connects to it.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # By default Delta computes a table's state in 50 tasks, and Spark shuffles into 200. That wastes seconds on a small
    # machine.
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.shuffle.partitions": "8",
}


def session(
    *,
    master: str | None = None,
    app_name: str = "pyspark-tubeclient",
    conf: Mapping[str, object] | None = None,
) -> SparkSession:
    """Return the running SparkSession, or start a new one.

    A new session runs its workers with this process's Python. On a cluster, it uses that of PYSPARK_PYTHON if it is
    set. It hides secrets and has no UI. It has Delta if the package delta-spark is installed. The first start on a
    machine downloads Delta's jars, unless they are beside Spark's own. Under spark-submit, master, jars and output are
    those of spark-submit.

    Of Spark's output, this process shows only the source's warnings. The rest goes to a file that is removed when the
    process ends. On a terminal and in IPython, standard error says that Spark is starting.

    Args:
        master: Spark's master; by default, all cores of this machine.
        app_name: The name of a new session.
        conf: Spark's settings. They override the settings above, and are also set in a running session.

    Raises:
        ConfigurationError: The running session has another master, or its workers' Python lacks this package
            (SESSION_DOES_NOT_FIT). Or Spark is too old or does not start, or settings ask for Spark Connect
            (NEEDS_CLASSIC_SPARK).
        MissingPackage: The package pyspark is missing.
    """
    with brought_by("spark"):
        import pyspark
        from pyspark import SparkContext

    check_spark(pyspark.__version__)
    wanted = {name: _text(value) for name, value in (conf or {}).items()}
    wanted_master = master or wanted.get("spark.master")
    running = _running()
    if running is not None and not (wanted_master or "").startswith("sc:"):
        if not is_connect(running):  # whose client sees neither the server's master nor its Python
            if wanted_master not in (None, running.sparkContext.master):
                raise _misfit(f"its master is {running.sparkContext.master}, not {wanted_master}")
            _check_python(running)
        for name, value in wanted.items():
            if running.conf.get(name, None) != value:
                running.conf.set(name, value)
        return running
    if (what := asks_for_connect(wanted_master, wanted)) is not None:
        raise ConfigurationError(
            f"{what} is for Spark Connect, and session() cannot start such sessions; create one with "
            "SparkSession.builder.remote. The source must be installed where the server runs",
            condition="NEEDS_CLASSIC_SPARK",
        )
    master = wanted_master or "local[*]"
    if master.startswith("local") and not is_submitted():
        os.environ.update(dict.fromkeys(_PYTHON_VARIABLES, sys.executable))
    builder = session_builder(app_name, master, wanted, with_delta=importlib.util.find_spec("delta") is not None)
    if not is_submitted():
        # Notebooks have no terminal.
        if (sys.stderr is not None and sys.stderr.isatty()) or hasattr(builtins, "__IPYTHON__"):
            print(STARTING_SPARK, file=sys.stderr, flush=True)
        if SparkContext._gateway is None:
            _start_with_log(builder)
    started = builder.getOrCreate()
    _check_python(started)  # the JVM of a session that was stopped lives on, with its environment
    return started


def session_builder(app_name: str, master: str, confs: Mapping[str, str], *, with_delta: bool) -> SparkSession.Builder:
    """The builder of a session with this module's settings, overridden by `confs`; under spark-submit, which sets
    master and packages, with `confs` alone. Sets the variables that name Spark's Python, where they are not set.

    MissingPackage if `with_delta` and delta-spark is missing.
    """
    from pyspark.sql import SparkSession

    # By default executors run "python3" from PATH, which may lack this package.
    python = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark takes this variable first, and for data sources on executors too.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    builder = SparkSession.builder.appName(app_name)
    if not is_submitted():
        local = _LOCAL_CONFS if master.startswith("local") else {}
        builder = builder.master(master)
        for name, value in {**_CONFS, **(_DELTA_CONFS if with_delta else {}), **local}.items():
            builder = builder.config(name, value)
        if with_delta:
            with brought_by("delta"):
                from delta import configure_spark_with_delta_pip
            if not _has_jar("delta-spark"):
                builder = configure_spark_with_delta_pip(builder)
    for name, value in confs.items():
        builder = builder.config(name, value)
    return builder


def start_jvm(builder: SparkSession.Builder, output: Any = None) -> None:
    """Start Spark's JVM in a session of its own, unless one runs already. Its output goes to the file `output`.

    Terminals, notebooks, `timeout` and many service managers signal the whole process group. Then only this process
    gets the signal; it finishes the running batch and ends Spark. A JVM that gets the signal ends at once, during the
    batch. The JVM ends with this process in any case: it reads from a pipe that this process holds open.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        if sys.platform != "win32":
            check_user(os.getuid())
        conf = SparkConf(loadDefaults=False).setAll([(name, str(value)) for name, value in builder._options.items()])
        outputs = {} if output is None else {"stdout": output, "stderr": output}
        gateway = launch_gateway(conf, {"start_new_session": True, **outputs})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)


def is_submitted() -> bool:
    """Whether spark-submit started this process, and Spark before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def asks_for_connect(master: str | None, confs: Mapping[str, str]) -> str | None:
    """What would make Spark start a client of Spark Connect for these settings: a setting's name, without secrets; None
    if nothing would."""
    if (master or "").startswith("sc:"):
        return f"master {(master or '').partition(';')[0].rstrip('/')}"  # after it, a URL may have a token
    if "spark.remote" in confs:
        return "the setting spark.remote"
    if confs.get("spark.api.mode", "").lower() == "connect":
        return "the setting spark.api.mode"
    variables = ["SPARK_REMOTE"]
    if "spark.api.mode" not in confs and os.environ.get("SPARK_API_MODE", "").lower() == "connect":
        variables.append("SPARK_API_MODE")
    return next((f"the variable {name}" for name in variables if name in os.environ), None)


def check_spark(version: str) -> None:
    """Raise ConfigurationError if a Spark of this version has no Python data sources."""
    if int(version.partition(".")[0]) < _LEAST_SPARK:
        raise ConfigurationError(
            f"this Python has pyspark {version}, but Python data sources need Spark {_LEAST_SPARK}. Install pyspark "
            "4.2 here, and run it on a cluster with the same version",
            condition="NEEDS_NEWER_SPARK",
        )


def check_user(uid: int) -> None:
    """Raise ConfigurationError if the user has no name: Hadoop, in Spark's JVM, would not let it log in."""
    import pwd

    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise ConfigurationError(
            f"Spark cannot run as user {uid}, which has no entry in /etc/passwd. Add one with a home, as useradd "
            "does, when you build the image or in its entrypoint; or run as another user",
            condition="USER_WITHOUT_NAME",
        ) from None


def has_delta(spark: SparkSession) -> bool:
    """Whether the session's JVM has Delta's classes."""
    from py4j.java_gateway import JavaPackage

    jvm: Any = spark._jvm
    # Py4J takes a name that is no class for a package.
    return not isinstance(jvm.io.delta.tables.DeltaTable, JavaPackage)


def _has_jar(name: str) -> bool:
    """Whether a jar lies beside the jars of the Spark that would start, as in an image. Then it is not fetched."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    return any((home / "jars").glob(f"*{name}_*.jar"))


def python_of(environment: Mapping[str, str]) -> tuple[str | None, str]:
    """The Python with which a Spark of this environment looks for data sources: the variable that names it (None: it is
    Spark's default), and its name."""
    variable = next((name for name in _PYTHON_VARIABLES if environment.get(name)), None)
    return variable, "python3" if variable is None else environment[variable]


def file_of_source(python: str) -> str | None:
    """The file of `pyspark_tubeclient` that this Python finds; None if it finds none. Runs it for 20 s at most."""
    script = "import pyspark_tubeclient; print(pyspark_tubeclient.__file__)"
    try:
        done = subprocess.run(
            [python, "-c", script], capture_output=True, text=True, timeout=_PYTHON_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _start_with_log(builder: SparkSession.Builder) -> None:
    """Start the JVM; its output and that of its Python processes goes to a file, which this process removes at its end.
    ConfigurationError if it does not start; then the file is left."""
    from pyspark.errors import PySparkRuntimeError

    log = SparkLog().__enter__()
    try:
        start_jvm(builder, log)
    except PySparkRuntimeError as error:
        log.keep()
        found = start_failure(log.text()) or f"[SPARK_NOT_STARTED] {error}"
        condition, _, text = found.removeprefix("[").partition("] ")
        text = f"{text.replace('--conf ', 'conf ')}. Spark's output is in {log.path}"
        raise ConfigurationError(text, condition=condition) from None
    finally:
        atexit.register(log.__exit__, None, None, None)


def _running() -> SparkSession | None:
    """The session of this process, whichever thread made it; None if there is none, or it was stopped."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        return SparkSession.getActiveSession()  # perhaps a remote one
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _check_python(running: SparkSession) -> None:
    """Raise ConfigurationError unless the Python in which the session's JVM looks for data sources finds this package:
    Spark would only say DATA_SOURCE_NOT_FOUND."""
    jvm: Any = running._jvm
    found = {name: jvm.java.lang.System.getenv(name) for name in _PYTHON_VARIABLES}
    variable, python = python_of({name: value for name, value in found.items() if value is not None})
    if python != sys.executable and file_of_source(python) is None:
        where = "from PATH (PYSPARK_PYTHON was not set when it started)" if variable is None else f"from {variable}"
        raise _misfit(f"its Python, {python} {where}, does not find pyspark_tubeclient")


def _misfit(why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the running SparkSession does not fit: {why}. Restart this Python process (in a notebook: the kernel), and"
        " call pyspark_tubeclient.session before anything else makes a session",
        condition="SESSION_DOES_NOT_FIT",
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
