"""Checks by other programs: yamllint, hadolint, checkov, promtool, and the server itself."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import monitoring
import render
import yaml

HERE = pathlib.Path(__file__).parent


def run(*command, **options):
    """Yields the output, line by line, if the program fails."""
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False,
                            **options)
    if result.returncode != 0:
        lines = (result.stdout + result.stderr).strip().splitlines()
        yield from lines or [f"{command[0]}: exit code {result.returncode}"]


def yamllint(deploy):
    """Files are YAML of one style."""
    yield from run(render.BIN / "yamllint", "--strict", "--format", "parsable", "--config-file",
                    HERE / "yamllint.yaml", ".", cwd=deploy)


def hadolint(deploy):
    """Dockerfiles follow hadolint's rules."""
    yield from run(render.BIN / "hadolint", *sorted((deploy / "images").glob("Dockerfile.*")))


def checkov(deploy):
    """Objects and images follow checkov's rules of security."""
    with tempfile.TemporaryDirectory() as folder:
        for number, overlay in enumerate(render.OVERLAYS):
            path = pathlib.Path(folder, f"{number}-{pathlib.Path(overlay).name}.yaml")
            path.write_text(render.kustomize(deploy, overlay), encoding="utf-8")
        for path in (deploy / "images").glob("Dockerfile.*"):
            shutil.copy(path, folder)
        environment = dict(os.environ, LOG_LEVEL="ERROR", PYTHONWARNINGS="ignore")
        yield from run(render.BIN / "checkov", "--config-file", HERE / "checkov.yaml",
                        "--directory", folder, env=environment)


def _expressions(deploy):
    """(where, expression) of all PromQL outside of alerts.yaml, with the words that other programs put
    in."""
    for panel, target in monitoring.targets(deploy):
        yield f"dashboard: {panel['title']}", target["expr"].replace("$__rate_interval", "5m")
    adapter = yaml.safe_load(
        (deploy / "kubernetes/components/hpa/prometheus-adapter.yaml").read_text(encoding="utf-8"))
    for rule in adapter["rules"]["custom"]:
        yield "prometheus-adapter.yaml", rule["seriesQuery"]
        yield ("prometheus-adapter.yaml", rule["metricsQuery"].replace("<<.GroupBy>>", "pod")
               .replace("<<.LabelMatchers>>", 'namespace="longstream"'))
    scaled = yaml.safe_load(
        (deploy / "kubernetes/components/keda/scaled-object.yaml").read_text(encoding="utf-8"))
    for trigger in scaled["spec"]["triggers"]:
        if trigger["type"] == "prometheus":
            yield "scaled-object.yaml", trigger["metadata"]["query"]


def promql(deploy):
    """The expressions of the dashboard and the autoscalers are PromQL."""
    rules = [{"record": f"expression:{number}", "labels": {"where": where}, "expr": expression}
             for number, (where, expression) in enumerate(_expressions(deploy))]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "expressions.yaml")
        path.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}),
                        encoding="utf-8")
        yield from run("promtool", "check", "rules", "--lint=none", path)


def promtool(deploy):
    """Alerts are valid, and fire when their tests say."""
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "rules.yaml").write_text(
            yaml.safe_dump({"groups": monitoring.rule_groups(deploy)}), encoding="utf-8")
        problems = list(run("promtool", "check", "rules", "rules.yaml", cwd=folder))
        for path in monitoring.test_files(deploy):
            if problems:
                break
            shutil.copy(path, folder)
            problems = list(run("promtool", "test", "rules", path.name, cwd=folder))
        yield from problems


def server(deploy):
    """The server itself reads each server.yaml, with the arguments of the pod. Its addresses, files and
    models are replaced by some of this machine; the database cannot be reached, which is the only
    error that it may find."""
    repository = deploy.parent
    program = os.environ.get("LONGSTREAM_SERVER", repository / "build/release/bin/longstream-server")
    for overlay in render.OVERLAYS:
        rendered = render.objects(render.kustomize(deploy, overlay))
        container = render.find(rendered, "Deployment")["spec"]["template"]["spec"]["containers"][0]
        with tempfile.TemporaryDirectory() as folder:
            _lay_out(pathlib.Path(folder), render.server_yaml(rendered), repository)
            arguments = [argument.replace("/etc/longstream", folder)
                         .replace("$(POD_IP):50052", "127.0.0.1:0")
                         for argument in container["args"]]
            result = subprocess.run([program, *arguments, "--check-config"], capture_output=True,
                                    text=True, check=False)
        output = result.stdout + result.stderr
        errors = re.findall(r"^.*error: .*$", output, re.MULTILINE)
        unreachable = [line for line in errors if "longstream@127.0.0.1:1/" in line
                       or "cannot be reached" in line]
        expected = 1 if unreachable else 0
        if result.returncode != expected or len(errors) > len(unreachable):
            yield from (f"{overlay}: {line}" for line in errors or output.splitlines())


def _lay_out(folder, text, repository):
    """Writes server.yaml and the files that it names to a folder."""
    text = re.sub(r"(0\.0\.0\.0|127\.0\.0\.1):\d+", "127.0.0.1:0", text)
    text = re.sub(r"/models/(\w+)", str(repository / "models/demo/hypenet"), text)
    text = re.sub(r"@[^/\s]+/", "@127.0.0.1:1/", text).replace("device: cuda", "device: cpu")
    text = text.replace("/etc/longstream", str(folder)).replace("/var/", f"{folder}/")
    (folder / "lib/longstream").mkdir(parents=True)
    digest = "0" * 64
    (folder / "credentials").write_text(
        f"token name=replicas role=peer sha256={digest}\n", encoding="utf-8")
    (folder / "peer-token").write_text("A" * 43 + "\n", encoding="utf-8")
    (folder / "store-password").write_text("secret\n", encoding="utf-8")
    (folder / "server.yaml").write_text(text, encoding="utf-8")
    for secret in ("credentials", "peer-token", "store-password"):
        (folder / secret).chmod(0o440)  # as Kubernetes gives it to the group of the pod
