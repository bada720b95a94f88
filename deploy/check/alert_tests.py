"""The tests of alerts are thorough. Each alert is tested firing, and in a healthy fleet that has the
series which it reads. Somewhat wrong alerts ("mutants") are made of each alert: with a `for` that is a
minute shorter, without one arm of an `or`, and without one condition of an arm in parentheses. Some
test must fail for each of them. (Conditions of alerts without `or` are not tried one by one.)"""

import copy
import pathlib
import re
import tempfile

import monitoring
import programs
import yaml

HEALTHY = "count(ALERTS) or vector(0)"  # the test that says that this is 0
MINUTES = re.compile(r"(\d+)m")


def _selectors(expression, records):
    """Yields (metric, matchers) of the series that an expression reads, through recording rules."""
    for name, matchers in monitoring.SELECTOR.findall(expression):
        if ":" in name:
            yield from _selectors(records[name], records)
        else:
            yield name, tuple(monitoring.MATCHER.findall(matchers))


def _matches(labels, matchers):
    for label, operator, value in matchers:
        wanted = value if "~" in operator else re.escape(value)
        if bool(re.fullmatch(wanted, labels.get(label, ""))) == operator.startswith("!"):
            return False
    return True


def _series(test, minutes):
    """Yields (metric, labels) of the series that exist so many minutes after the begin of a test."""
    for series in test["input_series"]:
        steps = [int(step) for step in re.findall(r"x(\d+)", series["values"])]
        if "_" not in series["values"] and sum(steps) >= minutes:
            name, labels = monitoring.SELECTOR.fullmatch(series["series"]).groups()
            yield name, {label: value for label, _, value in monitoring.MATCHER.findall(labels or "")}


def _missing(deploy):
    """Yields the alerts that are not tested to fire, or that are silent for another reason than health."""
    rules = monitoring.rules(deploy)
    records = {rule["record"]: rule["expr"] for rule in rules if "record" in rule}
    alerts = {rule["alert"]: rule["expr"] for rule in rules if "alert" in rule}
    fired = {case["alertname"] for test in monitoring.tests(deploy)
             for case in test.get("alert_rule_test") or () if case["exp_alerts"]}
    yield from (f"{name} is not both an alert and tested to fire"
                for name in sorted(alerts.keys() ^ fired))
    healthy = [series for test in monitoring.tests(deploy) for case in test.get("promql_expr_test") or ()
               if case["expr"] == HEALTHY and case["exp_samples"][0]["value"] == "0"
               for series in _series(test, int(MINUTES.fullmatch(case["eval_time"]).group(1)))]
    for name, expression in alerts.items():
        for metric, matchers in dict.fromkeys(_selectors(expression, records)):
            if not any(metric == other and _matches(labels, matchers) for other, labels in healthy):
                text = ",".join("".join((label, operator, f'"{value}"'))
                                for label, operator, value in matchers)
                yield f"{name} reads {metric}{{{text}}}, which the healthy fleet does not have"


def operands(expression, word):
    """Splits an expression at a word outside of parentheses."""
    parts, depth = [""], 0
    for token in re.split(rf"([()]|\s+{word}\s+)", expression):
        depth += {"(": 1, ")": -1}.get(token, 0)
        if token.strip() == word and depth == 0:
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _mutants(rule):
    """Yields (what is wrong, the alert with it)."""
    if "for" in rule:
        minutes = int(MINUTES.fullmatch(rule["for"]).group(1))
        yield "`for` is a minute shorter", {**rule, "for": f"{minutes - 1}m"}
    arms = operands(rule["expr"], "or")
    for number, arm in enumerate(arms):
        others = arms[:number] + arms[number + 1:]
        if others:
            yield f"{arm} is missing", {**rule, "expr": " or ".join(others)}
        conditions = operands(arm[1:-1], "and") if re.fullmatch(r"\(.*\)", arm, re.DOTALL) else ()
        for condition in conditions:
            rest = " and ".join(other for other in conditions if other != condition)
            yield f"{condition} is missing", {**rule, "expr": " or ".join([*others, rest])}


def _noticed(records, mutants, all_tests):
    """Returns (names of the mutants that some test notices, what promtool says).

    mutants: {name: (name of the alert, the rule)}."""
    groups = [{"name": "records", "rules": records},
              {"name": "mutants", "rules": [{**rule, "alert": name} for name, (_, rule) in mutants.items()]}]
    kept = []
    for test in all_tests:
        cases = [{**copy.deepcopy(case), "alertname": name} for case in test.get("alert_rule_test") or ()
                 for name, (alert, _) in mutants.items() if alert == case["alertname"]]
        if cases:
            kept.append({**test, "alert_rule_test": cases, "promql_expr_test": []})
    with tempfile.TemporaryDirectory() as folder:
        for name, value in (("rules.yaml", {"groups": groups}), ("mutants.yaml", {
                "rule_files": ["rules.yaml"], "evaluation_interval": "1m",
                "group_eval_order": [group["name"] for group in groups], "tests": kept})):
            pathlib.Path(folder, name).write_text(yaml.safe_dump(value), encoding="utf-8")
        output = "\n".join(programs.run("promtool", "test", "rules", "mutants.yaml", cwd=folder))
    return set(re.findall(r"alertname: (Mutant\d+), time:", output)), output


def _survivors(deploy):
    """Yields the mutants that no test notices. Alerts that read the same records are tried together, which
    takes less time than all at once."""
    rules, all_tests = monitoring.rules(deploy), monitoring.tests(deploy)
    wrong = {}  # {name of a mutant: what is wrong with it}
    tried = {}  # {records: {name of a mutant: (name of the alert, the rule)}}
    for rule in (rule for rule in rules if "alert" in rule):
        records = frozenset(name for name, _ in monitoring.SELECTOR.findall(rule["expr"]) if ":" in name)
        for what, mutant in _mutants(rule):
            name = f"Mutant{len(wrong)}"
            wrong[name] = what
            tried.setdefault(records, {})[name] = (rule["alert"], mutant)
    for records, mutants in tried.items():
        noticed, output = _noticed([rule for rule in rules if rule.get("record") in records], mutants, all_tests)
        if not noticed:
            yield f"promtool: {output}"
        for name, (alert, _) in mutants.items():
            if noticed and name not in noticed:
                yield f"{alert}: no test notices that {wrong[name]}"


def check(deploy):
    """Yields the problems."""
    yield from list(_missing(deploy)) or _survivors(deploy)
