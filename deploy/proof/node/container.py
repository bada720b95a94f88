"""The container of a pod: one longstream-server."""

import pathlib
import re
import signal
import subprocess

import image
import limits
import volumes

_SCRIPT = pathlib.Path(__file__).with_name("container.sh")


class Container:
    """A process that can be started again. Its log has the output of all runs."""

    def __init__(self, pod, spec, node, network):
        """Make the object. `spec`: the container of the pod. `node`: what the kubelet has."""
        self._pod = pod
        self._spec = spec
        self._node = node
        self._network = network
        self._process = None
        name = pod["metadata"]["name"]
        self._folder = node.folder / "pods" / name
        self._root = self._folder / "root"
        self._root.mkdir(parents=True)
        self.log = self._folder / "log"
        hosts = self._folder / "hosts"
        # In a cluster, its DNS answers for the others.
        lines = [f"{address} {host}" for host, address in node.hosts.items()]
        hosts.write_text("\n".join(["127.0.0.1 localhost", f"{network.address} {name}", *lines, ""]),
                         encoding="utf-8")
        made = volumes.lay_out(node.api, pod, self._folder)
        self._mounts = [f"ro {hosts} /etc/hosts", *volumes.mounts(pod, spec, made)]
        quota = spec["resources"]["limits"]
        self._tasks = node.limits.make(name, quota["cpu"], quota["memory"])

    def start(self):
        """Start the program of the image with the arguments of the pod."""
        security = self._pod["spec"]["securityContext"]
        user, group = security["runAsUser"], security["runAsGroup"]
        command = [
            *self._network.inside(), "unshare", "--mount", "--uts", str(_SCRIPT),
            str(self._node.image), str(self._root), self._pod["metadata"]["name"],
            f"{user}:{group}", str(security["fsGroup"]), "\n".join(self._mounts),
            "\n".join(self._tasks), image.PROGRAM, *self._arguments()]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log, env=self._environment(), cwd="/",
                                             start_new_session=True)

    def exit_code(self):
        """Return the exit code, as a container's; None: it runs."""
        status = self._process.poll()
        return status if status is None or status >= 0 else 128 - status

    def signal(self, number):
        """Send a signal."""
        if self._process.poll() is None:
            self._process.send_signal(number)

    def wait(self, seconds):
        """Wait for its end. Return whether it has ended."""
        try:
            self._process.wait(max(0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self):
        """End it at once."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()

    def last_lines(self, count=5):
        """Return the end of its log."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])

    def remove(self):
        """Remove its control groups. Its files stay, for the log."""
        self._node.limits.remove(self._pod["metadata"]["name"])

    def _environment(self):
        values = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                  "HOSTNAME": self._pod["metadata"]["name"]}
        for variable in self._spec.get("env", ()):
            if "value" in variable:
                values[variable["name"]] = variable["value"]
            elif variable["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP":
                values[variable["name"]] = self._network.address
            else:
                raise ValueError(f"env {variable['name']}: of a kind that is not implemented")
        return values

    def _arguments(self):
        values = self._environment()
        return [re.sub(r"\$\((\w+)\)", lambda match: values.get(match.group(1), match.group(0)),
                       argument) for argument in self._spec.get("args", ())]


def check(spec):
    """Raise ValueError if a container needs something that is not implemented."""
    limits.number(spec["resources"]["limits"]["cpu"])
    if spec.get("command"):
        raise ValueError("command: not implemented")
