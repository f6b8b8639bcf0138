"""The real promtool takes the rules, sees each alert fire, and can parse what the dashboard asks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.prometheus.test_names import DASHBOARD, expressions

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "conf" / "prometheus-alerts.yml"
VARIABLES = {"$query": ".*", "$topic": ".*", "$group": ".*", "$__range": "6h"}
"""What Grafana puts into the queries where all is chosen."""


def promtool(*arguments: str) -> str:
    """What it says; `make setup-all` puts it there."""
    found = shutil.which("promtool") or shutil.which("promtool", path=ROOT / ".cache" / "prometheus")
    assert found, "promtool is missing: run make setup-all, or tools/fetch_prometheus.sh, which say how to get it"
    done = subprocess.run([found, *arguments], check=False, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_each_alert_fires_when_it_must_and_not_before() -> None:
    promtool("check", "rules", str(RULES))
    promtool("test", "rules", "tests/prometheus/alerts_test.yml")
    tested = (ROOT / "tests" / "prometheus" / "alerts_test.yml").read_text(encoding="utf-8")
    rules = re.findall(r"- alert: (\w+)", RULES.read_text(encoding="utf-8"))
    assert all(f"alertname: {rule}\n        exp_alerts:" in tested for rule in rules)


def test_dashboard_queries_parse(tmp_path: Path) -> None:
    """Prometheus can parse each query of the dashboard."""
    asked = sorted({text for text in expressions(DASHBOARD) if not text.startswith("label_values(")})
    for variable, value in VARIABLES.items():
        asked = [text.replace(variable, value) for text in asked]
    assert len(asked) >= 20
    assert not any("$" in text for text in asked), "a variable that the test does not know"
    rules = [{"record": f"asked:{number}", "expr": text} for number, text in enumerate(asked)]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"{len(asked)} rules found" in promtool("check", "rules", str(tmp_path / "rules.yml"))
