"""Every label that an expression uses is one that docs/metrics.md gives the metric."""

import re

import monitoring
import yaml

SUFFIXES = ("_bucket", "_sum", "_count")
OF_MODEL = {"model", "version", "backend", "device"}
# Prometheus adds these when it scrapes a pod.
OF_SCRAPE = {"namespace", "pod", "job", "instance", "container", "endpoint"}
# Metrics of the whole server, of aliases and of pairs of models begin so, behind longstream_.
NOT_OF_A_MODEL = (
    "session_host_", "tenant_", "alias_", "shadow_", "compare_", "store_", "claims_", "handover",
    "fenced_", "fleet_", "stream_", "connections", "calls_", "security_", "certificate_", "build_",
    "load_", "process_", "http_")
METRIC = re.compile(r"\b(longstream_[a-z0-9_]+)\s*(?:\{([^}]*)\})?")
GROUPS = re.compile(r"\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)")
MATCHER = re.compile(r"([a-zA-Z_]\w*)\s*(?:=~|!~|!=|=)")


def documented(repository):
    """{metric: its labels} of docs/metrics.md."""
    text = (repository / "docs/metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(longstream_[a-z0-9_]+)(?:\{([^}]*)\})?[^|]*\| (\w+)", text, re.MULTILINE)
    found = {}
    for name, written, kind in rows:
        labels = OF_SCRAPE | {label.strip() for label in written.split(",") if label}
        if not name.removeprefix("longstream_").startswith(NOT_OF_A_MODEL):
            labels |= OF_MODEL
        found[name] = labels
        if kind == "histogram":
            for suffix in SUFFIXES:
                found[name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return found


def wrong(expression, names, known):
    """Yields the labels that the expression uses and its metrics do not have. `names`: further labels
    that are used of the result."""
    used = METRIC.findall(expression)
    everywhere = set().union(*(known.get(metric, set()) for metric, _ in used))
    for metric, matchers in used:
        for label in MATCHER.findall(matchers):
            if metric in known and label not in known[metric]:
                yield f"{metric} has no label {label}"
    groups = [label.strip() for group in GROUPS.findall(expression) for label in group.split(",")]
    # The result of a recording rule has the labels of its own expression.
    if used:
        for label in sorted({*groups, *names} - everywhere - {""}):
            yield f"no metric of the expression has a label {label}"


def expressions(deploy):
    """Yields (where, expression, labels that are used of its result)."""
    for rule in monitoring.rules(deploy):
        text = " ".join(rule.get("annotations", {}).values())
        yield (f"alerts: {rule.get('alert') or rule['record']}", rule["expr"],
               re.findall(r"\$labels\.(\w+)", text))
    for panel, target in monitoring.targets(deploy):
        yield (f"dashboard: {panel['title']}", target["expr"],
               re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
    components = deploy / "kubernetes/components"
    adapter = yaml.safe_load(
        (components / "hpa/prometheus-adapter.yaml").read_text(encoding="utf-8"))
    for rule in adapter["rules"]["custom"]:
        yield "prometheus-adapter.yaml", rule["seriesQuery"], rule["resources"]["overrides"]
    scaled = yaml.safe_load((components / "keda/scaled-object.yaml").read_text(encoding="utf-8"))
    for trigger in scaled["spec"]["triggers"]:
        yield "scaled-object.yaml", trigger["metadata"].get("query", ""), ()


def check(deploy):
    """Yields the problems."""
    known = documented(deploy.parent)
    for where, expression, names in expressions(deploy):
        yield from (f"{where}: {problem}" for problem in wrong(expression, names, known))
