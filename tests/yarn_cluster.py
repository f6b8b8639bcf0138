"""A YARN of one machine, of the Hadoop that pip's Spark has: `python -m tests.yarn_cluster` fetches its jars."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

from tests.apache.jvm import JvmProcess, free_ports, tail
from tests.exactly_once.processes import MARK
from tools.maven_jars import JarSet, java_executable, parse_artifacts, pyspark_jar

__all__ = ["yarn_cluster"]

_HADOOP: Final = pyspark_jar("hadoop-client-api").stem.rpartition("-")[2]

# The ResourceManager needs Bouncy Castle; logging and the rest of Hadoop are among Spark's jars.
_JARS: Final = JarSet(
    "hadoop-minicluster",
    parse_artifacts(f"""
org.apache.hadoop:hadoop-client-minicluster:{_HADOOP}
org.bouncycastle:bcpkix-jdk18on:1.82
org.bouncycastle:bcprov-jdk18on:1.82
org.bouncycastle:bcutil-jdk18on:1.82
"""),
)

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_SERVER: Final = "org.apache.hadoop.yarn.server"


def _settings(folder: Path, mark: str) -> dict[str, str]:
    names = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
    java_home = Path(java_executable()).resolve().parents[1]
    ports = zip(names, free_ports(5), strict=True)
    return {
        **{f"yarn.resourcemanager.{name}": f"127.0.0.1:{port}" for name, port in ports},
        **{f"yarn.nodemanager.{name}": "127.0.0.1:0" for name in ("address", "localizer.address", "webapp.address")},
        "hadoop.tmp.dir": str(folder / "tmp"),
        "yarn.node-attribute.fs-store.root-dir": f"file://{folder}/attributes",
        "yarn.nodemanager.log-dirs": str(folder / "containers"),
        "yarn.nodemanager.resource.memory-mb": "4096",
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        # Containers have few other variables.
        "yarn.nodemanager.admin-env": f"JAVA_HOME={java_home},{MARK}={mark}",
        "yarn.scheduler.minimum-allocation-mb": "128",
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        # Drivers may take more than a tenth of all.
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
    }


@contextmanager
def yarn_cluster(folder: Path, mark: str) -> Iterator[Path]:
    """While it runs: a ResourceManager, and a NodeManager with 4 GB, without HDFS. Gives the folder for
    HADOOP_CONF_DIR. What runs in containers carries the mark (see processes.py)."""
    conf = folder / "conf"
    conf.mkdir(parents=True)
    _write(conf / "yarn-site.xml", _settings(folder, mark))
    jars = os.pathsep.join([str(conf), _JARS.class_path(), str(pyspark_jar("py4j").parent / "*")])
    mains = f"{_SERVER}.resourcemanager.ResourceManager", f"{_SERVER}.nodemanager.NodeManager"
    manager, node = (JvmProcess(main.rpartition(".")[2], main, [], folder, 256, jars=jars) for main in mains)
    try:
        manager.start()
        node.start()
        for server in (manager, node):
            server.wait_for("the node's registration", lambda: _registered(node), _START_SECONDS)
        yield conf
    except BaseException as error:
        logs = sorted(folder.glob("containers/**/std*"), key=lambda path: path.stat().st_mtime)[-6:]
        error.add_note("\n".join([manager.tail(), node.tail(), *(f"--- {path}:\n{tail(path, 25)}" for path in logs)]))
        raise
    finally:
        node.terminate(_STOP_SECONDS)  # with its containers
        manager.terminate(_STOP_SECONDS)


def _registered(node: JvmProcess) -> bool:
    return node.log_file.is_file() and "Registered with ResourceManager" in node.log_file.read_text()


def _write(file: Path, settings: Mapping[str, str]) -> None:
    lines = (
        f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    )
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>\n"]))


if __name__ == "__main__":
    raise SystemExit(_JARS.report())
