"""The machine and the versions of a run."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from tools.maven_jars import java_executable

__all__ = ["machine", "versions"]

_PACKAGES = ("pyspark", "delta-spark", "pyarrow", "protobuf")


def machine() -> dict[str, Any]:
    """CPU, cores, memory, and the load now as `load_before`."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": found[1] if found else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory / (1 << 30), 1),
        "load_before": load(),
    }


def load() -> float:
    """Processes that wanted a core, averaged over the last minute."""
    return round(os.getloadavg()[0], 2)


def versions() -> dict[str, str]:
    """Versions of everything that is measured or measures."""
    said = subprocess.run([java_executable(), "-version"], capture_output=True, text=True, timeout=30, check=True)
    java = re.search(r'version "([^"]+)"', said.stderr)
    return {
        "Apache TubeMQ": "2.4.0",
        "Apache Kafka": "3.9.1",
        "Java": java[1] if java else "unknown",
        "Python": platform.python_version(),
        **{name: metadata.version(name) for name in _PACKAGES},
    }
