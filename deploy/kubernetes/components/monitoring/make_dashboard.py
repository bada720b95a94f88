#!/usr/bin/env python3
"""Writes dashboard.json, the Grafana dashboard. `make kube-check` compares the file with this program
and every metric in it with docs/metrics.md."""

import argparse
import json
import pathlib

OUTPUT = pathlib.Path(__file__).with_name("dashboard.json")
WHERE = 'namespace="$namespace",pod=~"$pod"'
WIDTH, HEIGHT = 8, 8  # of a panel; the page is 24 wide


def rate(metric, by, labels=""):
    """The sum of a counter's rate, by labels."""
    return f"sum by ({by}) (rate({metric}{{{WHERE}{labels}}}[$__rate_interval]))"


def total(metric, by, labels=""):
    """The sum of a gauge, by labels."""
    return f"sum by ({by}) ({metric}{{{WHERE}{labels}}})"


def quantiles(metric, by="model", shares=(0.5, 0.99)):
    """(expression, legend) of percentiles of a histogram, by default the 50th and the 99th."""
    return [(f"histogram_quantile({q}, {rate(metric + '_bucket', by + ', le')})",
             f"p{q * 100:.0f} {{{{{by}}}}}") for q in shares]


def share(part, whole, by):
    """One metric divided by another."""
    return f"{total(part, by)} / {total(whole, by)}"


# Row: [(title, unit, [(expression, legend)])]
ROWS = {
    "Load": [
        ("Turns", "short", [
            (total("longstream_requests_running", "model"), "running {{model}}"),
            (total("longstream_requests_parked", "model"), "wait for a place {{model}}"),
            (total("longstream_requests_waiting", "model"), "wait for memory {{model}}")]),
        ("Age of the oldest turn that waits", "s", [
            (f"time() - (longstream_oldest_waiting_timestamp_seconds{{{WHERE}}} > 0)",
             "{{pod}} {{model}}")]),
        ("Replicas", "short", [
            (f"count(longstream_build_info{{{WHERE}}})", "replicas"),
            (f"count by (version) (longstream_build_info{{{WHERE}}})", "version {{version}}")]),
        ("Turns that ended, by code", "reqps", [
            (rate("longstream_requests_total", "code"), "{{code}}")]),
        ("Calls that ended, by method and code", "reqps", [
            (rate("longstream_calls_total", "method, code", ',service!="grpc.health.v1.Health"'),
             "{{method}} {{code}}")]),
        ("Tokens", "short", [
            (rate("longstream_prompt_tokens_total", "model"), "prompts {{model}}"),
            (rate("longstream_generated_tokens_total", "model"), "generated {{model}}")]),
        ("Connections", "short", [
            (total("longstream_connections", "pod", ',port="grpc"'), "{{pod}}")]),
        ("Refused", "reqps", [
            (rate("longstream_connections_refused_total", "reason"), "connections {{reason}}"),
            (rate("longstream_calls_refused_total", "code"), "calls {{code}}")]),
    ],
    "Time": [
        ("Time to the first token", "s", quantiles("longstream_time_to_first_token_seconds")),
        ("Time from token to token", "s", quantiles("longstream_inter_token_latency_seconds")),
        ("Time in the queue", "s", quantiles("longstream_request_queue_seconds")),
    ],
    # One pod, or all? The first question of most runbooks.
    "By pod": [
        ("Time to the first token, by pod", "s",
         quantiles("longstream_time_to_first_token_seconds", "pod", (0.99,))),
        ("Time from token to token, by pod", "s",
         quantiles("longstream_inter_token_latency_seconds", "pod", (0.99,))),
        ("Time in the queue, by pod", "s", quantiles("longstream_request_queue_seconds", "pod", (0.99,))),
        ("Turns that run, by pod", "short", [
            (total("longstream_requests_running", "pod"), "{{pod}}")]),
        ("Turns that wait, by pod", "short", [
            (total("longstream_requests_parked", "pod") + " + "
             + total("longstream_requests_waiting", "pod"), "{{pod}}")]),
        ("Calls of Generate that ended, by pod and code", "reqps", [
            (rate("longstream_calls_total", "pod, code", ',method="Generate"'), "{{pod}} {{code}}")]),
    ],
    "Sessions and memory": [
        ("Sessions", "short", [(total("longstream_sessions", "model, state"), "{{state}} {{model}}")]),
        ("Share of the host's memory for sessions", "percentunit", [
            (share("longstream_session_host_bytes", "longstream_session_host_limit_bytes", "pod"),
             "{{pod}}")]),
        ("Share of the caches' budget", "percentunit", [
            (total("longstream_cache_usage_ratio", "pod, model"), "{{pod}} {{model}}")]),
        ("Bytes of models", "bytes", [(total("longstream_memory_bytes", "kind"), "{{kind}}")]),
        ("Evictions", "short", [
            (rate("longstream_session_evictions_total", "reason"), "caches {{reason}}"),
            (rate("longstream_session_early_releases_total", "reason"), "session {{reason}}")]),
        ("Tokens of histories", "short", [
            (rate("longstream_reused_tokens_total", "model"), "in the caches {{model}}"),
            (rate("longstream_restored_tokens_total", "model, from"), "from {{from}} {{model}}"),
            (rate("longstream_recomputed_tokens_total", "model"), "computed again {{model}}")]),
    ],
    "Store": [
        ("State (0: takes changes)", "short", [(total("longstream_store_state", "pod"), "{{pod}}")]),
        ("Time of a commit", "s", quantiles("longstream_store_commit_seconds", "pod")),
        ("Errors", "short", [(rate("longstream_store_errors_total", "code"), "{{code}}")]),
    ],
    "Fleet": [
        ("Sessions owned", "short", [
            (total("longstream_fleet_sessions", "pod"), "{{pod}}"),
            (total("longstream_fleet_sessions_to_hand_over", "pod"), "to hand over {{pod}}")]),
        ("Handovers, claims, fenced commits", "short", [
            (rate("longstream_handovers_total", "outcome"), "{{outcome}}"),
            (rate("longstream_claims_total", "namespace"), "claims"),
            (rate("longstream_fenced_commits_total", "namespace"), "fenced")]),
        ("Moves without caches", "short", [
            (rate("longstream_handover_caches_lost_total", "op, reason"), "{{op}} {{reason}}")]),
        ("Lease", "s", [(total("longstream_fleet_lease_seconds", "pod"), "{{pod}}")]),
    ],
    "Two models": [
        ("Tokens on which both agree", "percentunit", [
            (rate("longstream_compare_top1_agreements_total", "pair") + " / "
             + rate("longstream_compare_tokens_total", "pair"), "{{pair}}")]),
        ("KL divergence", "short", quantiles("longstream_compare_kl_nats", "pair")),
        ("Turns of aliases", "reqps", [
            (rate("longstream_alias_requests_total", "alias, arm"), "{{alias}} {{arm}}")]),
    ],
}


def variable(name, query, multiple):
    """A choice at the top of the page."""
    return {"name": name, "label": name, "type": "query", "query": query, "refresh": 2,
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "includeAll": multiple, "multi": multiple, "sort": 1}


def panel(number, title, unit, targets, x, y):
    """A plot over time."""
    return {
        "id": number, "type": "timeseries", "title": title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": x, "y": y, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list"}},
        "targets": [{"refId": chr(ord("A") + i), "expr": expr, "legendFormat": legend}
                    for i, (expr, legend) in enumerate(targets)],
    }


def dashboard():
    """The whole page."""
    panels, number, y = [], 0, 0
    for row, plots in ROWS.items():
        number += 1
        panels.append({"id": number, "type": "row", "title": row, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": 24, "h": 1}})
        y += 1
        for place, (title, unit, targets) in enumerate(plots):
            number += 1
            panels.append(panel(number, title, unit, targets, place % 3 * WIDTH,
                                y + place // 3 * HEIGHT))
        y += (len(plots) + 2) // 3 * HEIGHT
    return {
        "uid": "longstream", "title": "Longstream", "tags": ["longstream"], "schemaVersion": 39,
        "version": 1, "refresh": "30s", "time": {"from": "now-6h", "to": "now"}, "timezone": "",
        "templating": {"list": [
            {"name": "datasource", "label": "datasource", "type": "datasource",
             "query": "prometheus"},
            variable("namespace", "label_values(longstream_build_info, namespace)", False),
            variable("pod", 'label_values(longstream_build_info{namespace="$namespace"}, pod)',
                     True)]},
        "panels": panels,
    }


def text():
    """The file."""
    return json.dumps(dashboard(), indent=1) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--print", action="store_true", help="print it instead of writing the file")
    if parser.parse_args().print:
        print(text(), end="")
    else:
        OUTPUT.write_text(text(), encoding="utf-8")
