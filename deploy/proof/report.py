"""The result of a run: tables, a JSON file and the plot."""

import collections
import dataclasses
import json
import pathlib
import re

from plot import Plot

_WINDOW = 10  # seconds over which times to the first token are sorted
_MEAN = 5  # seconds, of the load in the plot
_NAMES = ("few", "many", "few again")
# Counters that must be 0: {name: why}.
_NONE = {
    "calls with DATA_LOSS": "a log of a session is damaged",
    "tokens resumed differently": "a replica has drawn another token than the client had",
    "commits fenced": "two replicas have worked for one session; no replica is paused or cut off here",
    "sessions claimed after a lease": "a replica has kept sessions beyond its end, or lost its lease; here each"
                                      " one hands its sessions over before it ends",
}


def percentile(values, part):
    """Return a percentile; 0: there are no values."""
    values = sorted(values)
    return values[round(part * (len(values) - 1))] if values else 0.0


class Report:
    """The measurements of a run.

    plan: [(seconds, turns at once)]. begin: when the load began, in seconds since 1970.
    load: the JSON of fleet_load. samples: of the observer. pods: their records.
    """

    def __init__(self, plan, begin, load, samples, pods):
        self._plan = plan
        self._begin = begin
        self._load = load
        self._pods = pods
        seconds = sum(step for step, _ in plan)
        self._samples = [dict(sample, at=sample["at"] - begin) for sample in samples
                         if 0 <= sample["at"] - begin <= seconds]
        self._turns = [(turn[0] - begin, *turn[1:]) for turn in load["turn_times"]]
        self._seconds = seconds

    def problems(self, counters, replicas):
        """Yield what the run has not shown. `replicas`: the least and the most."""
        least, most = replicas
        load = self._load
        for name in ("sessions_lost", "turns_missing", "turns_twice", "turns_unexpected",
                     "tokens_different"):
            if load[name]:
                yield f"{name}: {load[name]}"
        yield from load["errors"]
        for name, reason in _NONE.items():
            if counters[name]:
                yield f"{name}: {counters[name]}, not 0: {reason}"
        if not counters["sessions taken from living replicas"]:
            yield "no session was handed over"
        ready = [sample["ready"] for sample in self._samples]
        top = ready.index(most) if most in ready else None
        if top is None:
            yield f"there were never {most} replicas ready"
        elif least not in ready[:top]:
            yield f"there were not {least} replicas before {most}"
        elif ready[-1] != least:
            yield f"{ready[-1]} replicas were ready at the end, not {least}"
        for pod in self._pods:
            if pod.restarts or pod.was_killed or pod.exit_code not in (0, None):
                yield (f"pod {pod.name}: {pod.restarts} restarts, exit code {pod.exit_code}"
                       + (", SIGKILL" if pod.was_killed else ""))
            if pod.drain_seconds is not None:
                yield from (f"pod {pod.name}: {problem}" for problem in _stop_problems(pod.log))

    def phases(self):
        """Yield a row for each part of the plan."""
        begin = 0
        for number, (seconds, at_once) in enumerate(self._plan):
            end = begin + seconds
            turns = [turn for turn in self._turns if begin <= turn[0] < end]
            samples = [sample for sample in self._samples if begin <= sample["at"] < end]
            yield {"part": _NAMES[number] if len(self._plan) == len(_NAMES) else str(number + 1),
                   "seconds": seconds, "turns_at_once": at_once, "turns": len(turns),
                   "tokens_per_second": sum(turn[3] for turn in turns) / seconds,
                   "replicas_ready": [min((s["ready"] for s in samples), default=0),
                                      max((s["ready"] for s in samples), default=0)],
                   "most_waiting": max((sum(s["waiting"].values()) for s in samples), default=0),
                   "first_token_p50": percentile([turn[1] for turn in turns], 0.5),
                   "first_token_p95": percentile([turn[1] for turn in turns], 0.95),
                   "first_token_longest": percentile([turn[1] for turn in turns], 1)}
            begin = end

    def print(self, counters):
        """Print the tables."""
        print(f"\n{'part':10} {'s':>4} {'at once':>7} {'turns':>6} {'tok/s':>6} {'replicas':>8} "
              f"{'waiting':>7} {'TTFT p50':>9} {'p95':>7} {'longest':>7}")
        for row in self.phases():
            least, most = row["replicas_ready"]
            print(f"{row['part']:10} {row['seconds']:4} {row['turns_at_once']:7} {row['turns']:6} "
                  f"{row['tokens_per_second']:6.0f} {f'{least} to {most}':>8} "
                  f"{row['most_waiting']:7.0f} {row['first_token_p50']:7.2f} s "
                  f"{row['first_token_p95']:5.2f} s {row['first_token_longest']:5.2f} s")
        print(f"\n{'pod':24} {'ready after':>11} {'drained in':>10} {'exit':>4} {'throttled':>9}")
        for pod in self._pods:
            print(f"{pod.name[-24:]:24} {_seconds(pod.ready_after):>11} "
                  f"{_seconds(pod.drain_seconds):>10} "
                  f"{'-' if pod.exit_code is None else pod.exit_code:>4} "
                  f"{_seconds(pod.throttled_seconds):>9}")
        load = self._load
        repeated = " ".join(f"{name} {count}" for name, count in load["repeated"].items()) or "none"
        print(f"\nsessions {load['sessions']}, lost {load['sessions_lost']}; turns {load['turns']}, "
              f"missing {load['turns_missing']}, twice {load['turns_twice']}; tokens "
              f"{load['tokens']}, wrong {load['tokens_different']}; calls sent again: {repeated}; "
              f"by the client library: {load['resumed']}")
        for error, count in sorted(_without_names(load["resumed_after"]).items()):
            print(f"  {count} times after {error}")
        for reason, tokens in load["recomputed"].items():
            print(f"  {tokens} tokens of histories computed again: {reason}")
        for name, value in counters.items():
            print(f"  {name}: {value}")

    def write(self, path, counters, problems, events):
        """Write the JSON file."""
        path.write_text(json.dumps({
            "problems": problems, "phases": list(self.phases()), "counters": counters,
            "load": {key: value for key, value in self._load.items() if key != "turn_times"},
            "pods": [dataclasses.asdict(pod) for pod in self._pods],
            "events": [(round(at, 1), kind, text) for at, kind, text in events],
            "samples": self._samples}, indent=1), encoding="utf-8")

    def plot(self, path, target, rollout_at=None):
        """Write the SVG. `target`: turns that may wait for each replica."""
        marks, at = [], 0
        for seconds, at_once in self._plan:
            marks.append((at, f"{at_once} at once"))
            at += seconds
        if rollout_at is not None:
            marks.append((rollout_at - self._begin, "rollout"))
        plot = Plot("One to four replicas and back, by the HPA of a real control plane",
                    self._seconds, marks)
        busy = _busy([turn for turn in self._turns if turn[0] < self._seconds], self._seconds)
        rate = self._windows(lambda turns: sum(turn[3] for turn in turns) / _WINDOW)
        plot.add("Load: turns that clients wait for", [("turns", busy, True)])
        plot.add("Replicas", [
            ("wanted by the HPA", [(s["at"], s["wanted"]) for s in self._samples], True),
            ("ready", [(s["at"], s["ready"]) for s in self._samples], True)])
        plot.add(f"Turns that wait, for each replica (dashed: the target, {target:g})", [
            ("turns", [(s["at"], sum(s["waiting"].values()) / max(1, len(s["waiting"])))
                       for s in self._samples], False)], target)
        plot.add(f"Time to first token in seconds, over {_WINDOW} s", [
            ("p95", self._windows(lambda t: percentile([turn[1] for turn in t], 0.95)), False),
            ("median", self._windows(lambda t: percentile([turn[1] for turn in t], 0.5)), False)])
        plot.add("Tokens a second", [("of all clients", rate, False)])
        path.write_text(plot.text(), encoding="utf-8")

    def _windows(self, function):
        points = []
        for begin in range(0, int(self._seconds), _WINDOW):
            turns = [turn for turn in self._turns if begin <= turn[0] < begin + _WINDOW]
            if turns:
                points.append((begin + _WINDOW / 2, function(turns)))
        return points


def _busy(turns, seconds):
    """Return [(second, turns that were asked for and had not ended, mean of some seconds)]."""
    return [(begin, sum(max(0, min(at + whole, begin + _MEAN) - max(at, begin))
                        for at, _, whole, _ in turns) / _MEAN)
            for begin in range(0, int(seconds), _MEAN)]


def _without_names(errors):
    """Return {error without the names of sessions and replicas: how often}."""
    found = collections.Counter()
    for error, count in errors.items():
        error = re.sub(r"\b[0-9a-f]{32}\b", "S", error)
        found[re.sub(r"\breplica \S+", "replica R", error)] += count
    return found


def _stop_problems(path):
    """Yield what is wrong with the end of a server that got SIGTERM, by its log. If the time for its drain
    is over, it ends with exit code 0 and a line "stopped" that has an error."""
    stopped = []
    for line in pathlib.Path(path).read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and value.get("event") == "stopped":
            stopped.append(value)
    if not stopped:
        yield "its log does not say that it has stopped"
    yield from (f"stopped: {value['error']}" for value in stopped if "error" in value)


def _seconds(value):
    return "-" if value is None else f"{value:.1f} s"
