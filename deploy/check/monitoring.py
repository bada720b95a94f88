"""What kubernetes/components/monitoring has: rules, their tests, and the dashboard."""

import json
import re

import yaml

FOLDER = "kubernetes/components/monitoring"
SELECTOR = re.compile(r"\b(longstream[_:][a-z0-9_:]+)\s*(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')


def rule_groups(deploy):
    """The groups of alerts.yaml."""
    return yaml.safe_load((deploy / FOLDER / "alerts.yaml").read_text(encoding="utf-8"))["spec"]["groups"]


def rules(deploy):
    """The rules of all groups: alerts and records."""
    return [rule for group in rule_groups(deploy) for rule in group["rules"]]


def test_files(deploy):
    """The files of tests for promtool."""
    return sorted((deploy / FOLDER).glob("alerts_*_test.yaml"))


def tests(deploy):
    """The tests of all files. All values are texts: 0x420 is 421 zeroes."""
    return [test for path in test_files(deploy)
            for test in yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)["tests"]]


def dashboard_file(deploy):
    """The file of the dashboard."""
    return deploy / FOLDER / "dashboard.json"


def targets(deploy):
    """Yields (panel, target) of the dashboard."""
    for panel in json.loads(dashboard_file(deploy).read_text(encoding="utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield panel, target
