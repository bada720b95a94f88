"""Parts of `make kube-proof` that need no control plane: the objects for Kubernetes 1.20, the queries of
the HPA's metrics, and the judgement of a run."""

import contextlib
import copy
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
import xml.etree.ElementTree

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "deploy/proof"), str(REPOSITORY / "deploy/proof/node")]

import api  # noqa: E402
import limits  # noqa: E402
import metrics_api  # noqa: E402
import objects  # noqa: E402
import report  # noqa: E402

KUBECTL = pathlib.Path(sys.executable).with_name("kubectl")
COUNTERS = {"sessions taken from living replicas": 7, "calls with DATA_LOSS": 0,
            "tokens resumed differently": 0, "commits fenced": 0, "sessions claimed after a lease": 0}


def log(*lines):
    """The path of a file with these lines of a server's log."""
    with tempfile.NamedTemporaryFile("w", suffix=".log", delete=False) as file:
        file.write("".join(f"{line}\n" for line in lines))
    unittest.addModuleCleanup(pathlib.Path(file.name).unlink)
    return file.name


STOPPED = json.dumps({"level": "info", "event": "stopped"})


class Pod:
    """The record of a pod that ended well."""

    name, restarts, was_killed, exit_code = "pod", 0, False, 0
    ready_after = drain_seconds = throttled_seconds = 1.0
    log = log("a library's line", '["stopped"]', STOPPED)


def run(ready=(1, 2, 4, 2, 1), pods=(Pod,), **load):
    """A report on a run of 10 s, with these numbers of replicas, and these counts of the clients."""
    counts = {"sessions": 9, "turns": 40, "tokens": 80, "resumed": 0, "errors": [],
              "resumed_after": {}, "recomputed": {}, "repeated": {},
              "turn_times": [[1000 + i / 4, 0.1, 0.2, 2] for i in range(40)]}
    for name in ("sessions_lost", "turns_missing", "turns_twice", "turns_unexpected",
                 "tokens_different"):
        counts[name] = 0
    samples = [{"at": 1000 + 2 * i, "wanted": count, "ready": count, "waiting": {"pod": 3.0},
                "running": {"pod": 4.0}} for i, count in enumerate(ready)]
    return report.Report([(5, 2), (5, 4)], 1000, {**counts, **load}, samples, pods)


class Objects(unittest.TestCase):
    """The objects for Kubernetes 1.20."""

    @classmethod
    def setUpClass(cls):
        cls.rendered = objects.render(KUBECTL)
        cls.made, cls.notes = objects.for_1_20(cls.rendered)

    def test_only_kinds_that_the_proof_can_make(self):
        for value in self.made:
            group, _ = api.PLURALS[value["kind"]]
            self.assertEqual(group.removeprefix("/apis/").removeprefix("/api/"), value["apiVersion"])

    def test_later_fields_are_kept_for_the_kubelet(self):
        before = objects.find(self.rendered, "Deployment")["spec"]["template"]["spec"]["containers"][0]
        template = objects.find(self.made, "Deployment")["spec"]["template"]
        after = template["spec"]["containers"][0]
        later = objects.later_fields(template, "server")
        self.assertEqual({*objects.PROBES, "lifecycle"}, set(later))
        self.assertEqual(before, {**after, **later})

    def test_each_metric_of_the_autoscaler_has_a_rule(self):
        spec = objects.find(self.rendered, "HorizontalPodAutoscaler")["spec"]
        rules = metrics_api.rules()
        for metric in spec["metrics"]:
            query = metrics_api.expression(rules[metric["pods"]["metric"]["name"]], "n", ["a", "b"])
            self.assertIn('{namespace="n",pod=~"a|b"}', query)
            self.assertIn("by (pod)", query)
            self.assertNotIn("<<", query)

    def test_fields_that_are_not_stored_are_found(self):
        value = {"spec": {"list": [{"a": 1}], "kept": "x"}}
        stored = copy.deepcopy(value)
        stored["status"] = {}
        self.assertEqual([], list(api.dropped(value, stored)))
        del stored["spec"]["list"][0]["a"]
        stored["spec"]["kept"] = "y"
        self.assertEqual([".spec.list[0].a", ".spec.kept"], list(api.dropped(value, stored)))

    def test_quantities(self):
        for text, number in (("250m", 0.25), ("2", 2), ("1Gi", 2**30), ("1.5Ki", 1536)):
            self.assertAlmostEqual(number, limits.number(text))


class Judgement(unittest.TestCase):
    """The runs that prove nothing."""

    def problems(self, made, **counters):
        return "\n".join(made.problems({**COUNTERS, **counters}, (1, 4)))

    def test_a_good_run(self):
        self.assertEqual("", self.problems(run()))

    def test_losses_of_clients(self):
        for name in ("sessions_lost", "turns_missing", "turns_twice", "turns_unexpected",
                     "tokens_different"):
            self.assertIn(name, self.problems(run(**{name: 1})))
        self.assertIn("DEADLINE", self.problems(run(errors=["DEADLINE"])))

    def test_counters_of_replicas(self):
        self.assertIn("handed over", self.problems(
            run(), **{"sessions taken from living replicas": 0}))
        for name in ("calls with DATA_LOSS", "tokens resumed differently", "commits fenced",
                     "sessions claimed after a lease"):
            self.assertIn(f"{name}: 1, not 0: ", self.problems(run(), **{name: 1}))

    def test_numbers_of_replicas(self):
        self.assertIn("never 4", self.problems(run(ready=(1, 2, 3, 2, 1))))
        self.assertIn("not 1 replicas before", self.problems(run(ready=(2, 3, 4, 2, 1))))
        self.assertIn("2 replicas were ready at the end", self.problems(run(ready=(1, 2, 4, 3, 2))))

    def test_pods_that_end_badly(self):
        for field, value in (("restarts", 1), ("was_killed", True), ("exit_code", 137)):
            pod = type("BadPod", (Pod,), {field: value})
            self.assertIn("pod pod", self.problems(run(pods=[pod])))

    def test_drains_that_run_out_of_time(self):
        source = (REPOSITORY / "service/program/server_fleet.cc").read_text(encoding="utf-8")
        (error,) = re.findall(r'kWarning, "stopped",\s*\{\{"error", "(.*)"\}\}', source)
        late = json.dumps({"level": "warning", "event": "stopped", "error": error})
        for text, lines in ((f"pod pod: stopped: {error}", (late,)),
                            (f"pod pod: stopped: {error}", (late, STOPPED)),
                            ("pod pod: its log does not say that it has stopped", ("cut off",))):
            self.assertIn(text, self.problems(run(pods=[type("LatePod", (Pod,), {"log": log(*lines)})])))
        running = type("RunningPod", (Pod,), {"log": log(), "drain_seconds": None, "exit_code": None})
        self.assertEqual("", self.problems(run(pods=[running])))

    def test_tables(self):
        text = io.StringIO()
        errors = {f"UNAVAILABLE: session {i:032x}: replica a-{i} has it": 2 for i in range(3)}
        with contextlib.redirect_stdout(text):
            run(resumed=6, resumed_after=errors).print(COUNTERS)
        self.assertIn("  6 times after UNAVAILABLE: session S: replica R has it\n", text.getvalue())
        self.assertIn("sessions 9, lost 0; turns 40, missing 0, twice 0; tokens 80, wrong 0",
                      text.getvalue())

    def test_phases_and_plot(self):
        made = run()
        rows = list(made.phases())
        self.assertEqual([20, 20], [row["turns"] for row in rows])
        self.assertEqual([8.0, 8.0], [row["tokens_per_second"] for row in rows])
        self.assertEqual([[1, 4], [1, 2]], [row["replicas_ready"] for row in rows])
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "plot.svg")
        made.plot(path, 4.0)
        root = xml.etree.ElementTree.parse(path).getroot()
        texts = [element.text for element in root.iter() if element.tag.endswith("text")]
        for title in ("Replicas", "2 at once", "— ready"):
            self.assertIn(title, texts)


if __name__ == "__main__":
    unittest.main()
