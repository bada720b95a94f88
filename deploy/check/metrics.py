"""Every metric that alerts, the dashboard, the autoscalers and the endpoint picker name exists in
docs/metrics.md and in the sources. Every alert has a runbook; the dashboard is the one that its program
makes."""

import json
import re
import subprocess
import sys

import monitoring

NAMED = re.compile(r"\blongstream_[a-z0-9_]+")
SUFFIXES = ("_bucket", "_sum", "_count")
# Made by prometheus-adapter.yaml for the HPA.
OF_ADAPTER = {"longstream_turns_waiting", "longstream_session_bytes_ratio"}


def documented(repository):
    """The metrics of docs/metrics.md."""
    text = (repository / "docs/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(longstream_[a-z0-9_]+)[^|]*\| (\w+)", text, re.MULTILINE)
    names = set()
    for name, kind in rows:
        names.add(name)
        if kind == "histogram":
            names.update(name + suffix for suffix in SUFFIXES)
    return names


def in_sources(repository):
    """The metrics that the sources name. A name that ends with _ stands for all that begin with it."""
    return {name for room in ("service", "gateway") for path in (repository / room).rglob("*.cc")
            for name in re.findall(r'"(longstream_[a-z0-9_]+)"', path.read_text(encoding="utf-8"))}


def _unknown(deploy, repository):
    known, source = documented(repository), in_sources(repository)
    bases = {re.sub("(_bucket|_sum|_count)$", "", name): name for name in known}
    families = tuple(name for name in source if name.endswith("_"))
    for name in sorted(set(bases) - source):
        if not name.startswith(families):
            yield f"docs/metrics.md: no source names {name}"
    paths = [*(deploy / monitoring.FOLDER).glob("*"), *(deploy / "kubernetes/components").rglob("*.yaml"),
             *(deploy / "helm/longstream/templates").glob("*.yaml")]
    for path in sorted(set(paths)):
        if not path.is_file():
            continue
        for name in sorted(set(NAMED.findall(path.read_text(encoding="utf-8")))):
            if name not in known | OF_ADAPTER:
                yield f"{path.relative_to(deploy)}: there is no metric {name}"


def _dashboard(deploy):
    program = deploy / monitoring.FOLDER / "make_dashboard.py"
    made = subprocess.run([sys.executable, "-B", program, "--print"], capture_output=True, text=True,
                          check=True).stdout
    if made != monitoring.dashboard_file(deploy).read_text(encoding="utf-8"):
        yield f"dashboard.json: not what {program.name} makes; run it"
    panels = [panel for panel in json.loads(made)["panels"] if panel["type"] != "row"]
    yield from (f"dashboard: {panel['title']}: no expression" for panel in panels
                if not panel["targets"])


def _runbooks(deploy, repository):
    """Alerts and their headings in docs/operations.md go together."""
    page = (repository / "docs/operations.md").read_text(encoding="utf-8")
    alerts = {rule["alert"]: rule for rule in monitoring.rules(deploy) if "alert" in rule}
    headings = set(re.findall(r"^### (Longstream\w+)", page, re.MULTILINE))
    for name in sorted(alerts.keys() ^ headings):
        yield f"alerts: {name} is not both an alert and a heading of docs/operations.md"
    for name, rule in alerts.items():
        url = rule["annotations"]["runbook_url"]
        if url != f"docs/operations.md#{name.lower()}":
            yield f"alerts: {name}: runbook_url is {url}"


def check(deploy):
    """Yields the problems."""
    repository = deploy.parent
    yield from _unknown(deploy, repository)
    yield from _dashboard(deploy)
    yield from _runbooks(deploy, repository)
