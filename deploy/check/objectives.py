"""The objectives of latency are bounds of the histograms: at another number, an alert has no data. So are the
objectives that the chart takes."""

import json
import re

import render

SOURCE = "service/metrics/model_metrics.cc"
BOUND = re.compile(r'(longstream_[a-z_]+_seconds)_bucket\{le=~?"([^"]*)"\}')


def bounds(repository):
    """The bounds of the histograms of latency, in seconds."""
    text = (repository / SOURCE).read_text(encoding="utf-8")
    listed = re.search(r"LatencyBuckets\(\) \{.*?\{(.*?)\}", text, re.DOTALL).group(1)
    return {float(number) for number in listed.split(",")}


def wrong(expression, known):
    """Yields the problems of an expression."""
    for metric, pattern in BOUND.findall(expression):
        numbers = {float(text) for text in pattern.split("|")}
        if len(numbers) != 1 or not numbers <= known:
            yield f"{metric}: le is {pattern}; the bounds are {', '.join(f'{n:g}' for n in sorted(known))}"
        elif all(number.is_integer() for number in numbers) and len(pattern.split("|")) != 2:
            number = int(numbers.pop())
            yield f"{metric}: write le=~\"{number}|{number}.0\", because Prometheus 3 calls the bound {number}.0"


def check(deploy):
    """Yields the problems of all overlays, and of the chart's schema."""
    known = bounds(deploy.parent)
    for overlay in render.OVERLAYS:
        rule = render.find(render.objects(render.kustomize(deploy, overlay)), "PrometheusRule")
        for group in rule["spec"]["groups"] if rule else ():
            for one in group["rules"]:
                for problem in wrong(one["expr"], known):
                    yield f"{overlay}: {one.get('record') or one['alert']}: {problem}"
    schema = json.loads((deploy / "helm/longstream/values.schema.json").read_text(encoding="utf-8"))
    taken = schema["properties"]["monitoring"]["properties"]["objectives"]["properties"]
    for name, values in taken.items():
        for value in sorted(set(values["enum"]) - known):
            yield f"values.schema.json: {name} may be {value}, which is no bound"
