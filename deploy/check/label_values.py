"""Every value that an expression gives a label is one that the server writes: a bound of the histogram's
buckets, a method, a code of gRPC, or a word that docs/metrics.md and the sources have."""

import re

import labels
import monitoring
import protos

CODES = {
    "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
    "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
# The operator chooses their values.
FREE = labels.OF_MODEL | labels.OF_SCRAPE | {"pair", "alias", "arm", "tenant"}
LITERAL = re.compile(r'"([\w.]+)"')
BOUNDS = re.compile(r"\{([-\d.,\se]+)\}")
FEWEST_BOUNDS = 5  # of a histogram; shorter lists of numbers are something else


class Known:
    """The values that labels may have."""

    def __init__(self, repository):
        self._code = {}  # {path: text without comments}
        for folder in ("service", "gateway"):
            for path in (repository / folder).rglob("*.*"):
                if path.suffix in (".cc", ".h"):
                    text = path.read_text(encoding="utf-8")
                    self._code[path] = re.sub(r"(?m)^\s*//.*$|\s//.*$", "", text)
        self._literals = {word for text in self._code.values() for word in LITERAL.findall(text)}
        self._services = protos.services(repository)
        page = (repository / "docs/metrics.md").read_text(encoding="utf-8")
        # {metric: the words in backquotes of its row}
        self._words = {row.group(1): set(re.findall(r"`(\w+)`", row.group(0)))
                       for row in re.finditer(r"^\| `(longstream_\w+).*$", page, re.MULTILINE)}

    def _bounds(self, metric):
        """The bounds of a histogram, as numbers: those of all bucket lists in its source."""
        name = metric.removesuffix("_bucket")
        found = {float("inf")}
        for text in self._code.values():
            for numbers in BOUNDS.findall(text) if f'"{name}"' in text else ():
                values = [number for number in numbers.split(",") if number.strip()]
                if len(values) >= FEWEST_BOUNDS:
                    found.update(float(value) for value in values)
        return found

    def has(self, metric, label, value):
        """Whether a label of a metric may have a value."""
        if label == "le":  # Prometheus 2 writes 5, Prometheus 3 writes 5.0
            return float(value) in self._bounds(metric)
        return value in self._of(metric, label)

    def _of(self, metric, label):
        if label == "code":
            return CODES
        if label == "service":
            return self._services.keys()
        if label == "method":
            return set().union(*self._services.values())
        base = re.sub("(_bucket|_sum|_count)$", "", metric)
        words = self._words.get(metric) or self._words.get(base) or set()
        return words & self._literals


def wrong(expression, known):
    """Yields the values that no series has."""
    for metric, matchers in monitoring.SELECTOR.findall(expression):
        for label, operator, value in monitoring.MATCHER.findall(matchers):
            values = value.split("|") if "~" in operator else [value]
            for each in values if label not in FREE else ():
                if each and not known.has(metric, label, each):
                    yield f'no {metric} has {label}="{each}"'


def check(deploy):
    """Yields the problems of expressions, and of the series in the tests of alerts."""
    known = Known(deploy.parent)
    series = [(f"test: {test['name']}", each["series"]) for test in monitoring.tests(deploy)
              for each in test["input_series"]]
    for where, expression, *_ in (*labels.expressions(deploy), *series):
        yield from (f"{where}: {problem}" for problem in wrong(expression, known))
