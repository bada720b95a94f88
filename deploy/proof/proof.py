"""The proof: starts all programs, deploys the fleet, runs the load, and judges what has happened."""

import json
import re
import shutil
import subprocess
import time

import objects
from api import ApiError, path_of
from cell import NODE_ADDRESS
from certificates import NODE, Certificates
from control_plane import ControlPlane
from database import HOST, Database
from gateway import Gateway
from kubelet import Kubelet
from metrics_api import MetricsApi
from monitoring import Monitoring
from observer import Observer
from pod_status import timestamp
from ports import Ports
from report import Report
from service import ServiceError
from timeline import Timeline

_USER = 10001  # of the pods
_PATIENCE = 120  # seconds for a state of the cluster
_CALM = 10  # samples before the rollout


class Proof:
    """One run. `options`: of the command line; `folder`: for the files of the run."""

    def __init__(self, options, folder, limits):
        """Make all objects; start nothing."""
        self._options = options
        self._folder = folder
        self._timeline = Timeline()
        self._plan = [tuple(map(int, step.split(":"))) for step in options.plan]
        self._rendered = objects.render(options.kubectl)
        self._certificates = Certificates(folder / "certificates")
        self._control = ControlPlane(folder, options.folder / "bin", self._certificates)
        self._api = self._control.server.api()
        self._database = Database(folder / "postgres", options.replicas[1] + 2)
        self._kubelet = Kubelet(self._control.server.api(f"system:node:{NODE}"), folder,
                                folder / "image", limits, {HOST: NODE_ADDRESS}, self._timeline)
        free = Ports()
        self._gateway = Gateway(folder / "envoy", options.envoy, free, self._api, self._timeline)
        self._free = free
        self._prometheus = None
        self._metrics = None
        self._observer = Observer(self._api, self._kubelet, self._timeline)
        self._load = None
        self._rollout_at = None  # in seconds since 1970
        if not limits.exist:
            self._timeline.say("no control groups: pods have no limits", "fault")

    def run(self):
        """Run the proof. Returns the exit status."""
        self._timeline.say("etcd, kube-apiserver, kube-controller-manager and kube-scheduler start")
        self._control.start()
        version = self._api.get("/version")["gitVersion"]
        self._timeline.say(f"the API server answers: {version}")
        self._database.start()
        self._start_metrics()
        self._kubelet.start()
        self._deploy()
        self._gateway.start()
        self._wait("the replicas are ready", self._is_deployed)
        self._gateway.wait_until_ready()
        self._wait("the HPA reads its metrics", self._hpa_is_active)
        self._observer.start()
        load, begin = self._run_load()
        self._observer.stop()
        return self._judge(load, begin)

    def stop(self):
        """End everything that runs."""
        self._observer.stop()
        if self._load is not None and self._load.poll() is None:
            self._load.kill()
            self._load.wait()
        self._kubelet.stop()
        self._gateway.stop()
        if self._metrics is not None:
            self._metrics.stop()
        if self._prometheus is not None:
            self._prometheus.stop()
        self._control.stop()
        self._database.stop()

    def _start_metrics(self):
        self._prometheus = Monitoring(self._folder / "prometheus", self._free, self._api,
                                      objects.find(self._rendered, "PodMonitor"))
        self._prometheus.start()
        self._prometheus.wait_until_ready()
        self._metrics = MetricsApi(self._api, self._prometheus, self._certificates)
        self._metrics.start()

    def _deploy(self):
        """Do what docs/operations.md tells an operator to do."""
        made, notes = objects.for_1_20(self._rendered)
        print("Changes for Kubernetes 1.20:")
        for note in notes:
            print(f"  {note}")
        peer, credentials = self._token("replicas", "peer")
        client, row = self._token("load", "client")
        (self._folder / "token").write_text(client + "\n", encoding="utf-8")
        (self._folder / "token").chmod(0o600)
        models = self._folder / "models"
        shutil.copytree(self._models() / "hypenet", models / "hypenet")
        cache = self._folder / "cache"
        cache.mkdir()
        shutil.chown(cache, _USER, _USER)
        for value in (
                objects.namespace(),
                objects.secret("longstream-security", credentials=f"{credentials}\n{row}\n",
                               peer_token=f"{peer}\n"),
                objects.secret("longstream-store", password=f"{self._database.password}\n"),
                objects.volume("models", "longstream-models", models),
                objects.volume("cache", "longstream-cache", cache),
                *objects.metrics_service(NODE_ADDRESS, MetricsApi.port),
                objects.metrics_api(self._certificates.text("ca.crt")),
                *made):
            self._api.create(value)
        self._timeline.say(f"{len(made)} objects of deploy/kubernetes are applied")

    def _token(self, name, role):
        """Draw a token. Return it, and its row for the file of credentials."""
        text = subprocess.run(
            [self._options.build / "bin/longstream", "token", "new", "--name", name, "--role", role],
            capture_output=True, text=True, check=True).stdout
        return (re.search(r"^lst_\w+$", text, re.MULTILINE).group(),
                re.search(r"^token name=.*$", text, re.MULTILINE).group())

    def _models(self):
        return self._options.source / "models/demo"

    def _is_deployed(self):
        status = self._api.get(path_of("Deployment", objects.NAMESPACE, objects.NAME))["status"]
        return status.get("readyReplicas", 0) >= self._options.replicas[0]

    def _hpa_is_active(self):
        path = path_of("HorizontalPodAutoscaler", objects.NAMESPACE, objects.NAME)
        status = self._api.get(path)["status"]
        return any(each["type"] == "ScalingActive" and each["status"] == "True"
                   for each in status.get("conditions") or ())

    def _wait(self, text, is_so):
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                if is_so():
                    self._timeline.say(text)
                    return
            except ApiError as error:
                if error.status != 404:
                    raise
            self._check_services()
            if time.monotonic() > until:
                raise ServiceError(f"not within {_PATIENCE} s: {text}")
            time.sleep(0.5)

    def _check_services(self):
        for service in (*self._control.services(), self._database, self._prometheus, self._gateway):
            status = service.ended()
            if status is not None:
                raise ServiceError(f"{service.name} ended with {status}:\n{service.last_lines()}")

    def _run_load(self):
        """Run the clients to their end. Return their JSON, and when the load began."""
        options = self._options
        result = self._folder / "load.json"
        command = [options.build / "tests/fleet_load", options.build / "bin/longstream-server",
                   self._models(), "--address", f"127.0.0.1:{self._gateway.port}", "--token-file",
                   self._folder / "token", "--sessions", str(options.sessions), "--turns",
                   str(options.turns), "--tokens", str(options.tokens), "--json", result, "--plan",
                   *options.plan]
        self._timeline.say("the clients compute the tokens of an undisturbed run")
        log = self._folder / "load.log"
        with log.open("wb") as file:
            self._load = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        begin = None
        while self._load.poll() is None:
            self._check_services()
            if self._rollout_at is None and self._is_back(begin):
                self._roll_out()
            if begin is None and "The load begins." in log.read_text(errors="replace"):
                begin = time.time()
                self._timeline.say(f"the load begins: {' '.join(options.plan)}", "load")
            time.sleep(0.2)
        print(log.read_text(errors="replace"), end="")
        if not result.exists() or begin is None:
            raise ServiceError(f"fleet_load ended with {self._load.returncode}")
        return json.loads(result.read_text(encoding="utf-8")), begin

    def _is_back(self, begin):
        """Whether the last part of the plan runs, and the fleet has been small again for a while."""
        if begin is None or self._options.no_rollout:
            return False
        least = self._options.replicas[0]
        last = self._observer.samples[-_CALM:]
        return (time.time() - begin > sum(seconds for seconds, _ in self._plan[:-1])
                and len(self._kubelet.pods()) == least
                and all(sample["wanted"] == sample["ready"] == least for sample in last))

    def _roll_out(self):
        """Replace the replicas by new ones, as `kubectl rollout restart` does."""
        self._rollout_at = time.time()
        self._timeline.say("a rollout begins", "rollout")
        note = {"kubectl.kubernetes.io/restartedAt": timestamp()}
        self._api.merge(path_of("Deployment", objects.NAMESPACE, objects.NAME),
                        {"spec": {"template": {"metadata": {"annotations": note}}}})

    def _rollout_problems(self):
        """Yield what is missing of the rollout."""
        if self._options.no_rollout:
            return
        path = path_of("Deployment", objects.NAMESPACE, objects.NAME)
        status = self._api.get(path)["status"]
        least = self._options.replicas[0]
        if self._rollout_at is None:
            yield "there was no time for a rollout"
        elif not status.get("updatedReplicas") == status.get("replicas") == least:
            yield f"the rollout has not ended: {status}"

    def _judge(self, load, begin):
        counters = self._observer.counters()
        pods = self._kubelet.records()
        report = Report(self._plan, begin, load, self._observer.samples, pods)
        report.print(counters)
        problems = list(report.problems(counters, self._options.replicas))
        problems += self._rollout_problems()
        problems += [text for _, kind, text in self._timeline.events if kind == "fault"]
        folder = self._options.folder
        report.write(folder / "result.json", counters, problems, self._timeline.events)
        report.plot(folder / "kube-proof.svg", self._target(), self._rollout_at)
        for problem in problems:
            print(f"FAULT: {problem.removeprefix('FAULT: ')}")
        print(f"result: {folder / 'result.json'}, {folder / 'kube-proof.svg'}")
        least, most = self._options.replicas
        if not problems:
            rollout = "" if self._rollout_at is None else ", and a rollout"
            print(f"{least} to {most} to {least} replicas{rollout}: 0 of {load['sessions']} sessions "
                  f"lost, 0 of {load['tokens']} tokens wrong")
        return 1 if problems else 0

    def _target(self):
        metrics = objects.find(self._rendered, "HorizontalPodAutoscaler")["spec"]["metrics"]
        return float(metrics[0]["pods"]["target"]["averageValue"])
