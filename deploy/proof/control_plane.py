"""The control plane: etcd, API server, controller manager and scheduler, as real programs."""

import json
import ssl
import urllib.error
import urllib.request

from api import Api
from cell import NODE_ADDRESS
from service import Service

_ETCD = 2379
_API_SERVER = 6443
_CONTROLLER_MANAGER = 10257
_SCHEDULER = 10259


class Etcd(Service):
    """The database of the control plane."""

    def command(self):
        """Return the program and its arguments."""
        return ["etcd", "--name=proof", f"--data-dir={self.folder / 'data'}", "--log-level=warn",
                "--logger=zap", f"--listen-client-urls={self.address()}",
                f"--advertise-client-urls={self.address()}",
                "--listen-peer-urls=http://127.0.0.1:2380",
                "--initial-advertise-peer-urls=http://127.0.0.1:2380",
                "--initial-cluster=proof=http://127.0.0.1:2380"]

    def address(self):
        """Say where it is."""
        return f"http://127.0.0.1:{_ETCD}"

    def ready(self):
        """Whether it answers."""
        return _answers(f"{self.address()}/health")


class ApiServer(Service):
    """kube-apiserver, with tokens, RBAC and the aggregator."""

    def __init__(self, folder, program, etcd, certificates):
        super().__init__("kube-apiserver", folder)
        self._program = program
        self._etcd = etcd
        self._certificates = certificates

    def command(self):
        """Return the program and its arguments."""
        path = self._certificates.path
        return [
            str(self._program), f"--etcd-servers={self._etcd.address()}",
            f"--secure-port={_API_SERVER}", f"--advertise-address={NODE_ADDRESS}",
            f"--tls-cert-file={path('server.crt')}", f"--tls-private-key-file={path('server.key')}",
            f"--cert-dir={self.folder}", f"--token-auth-file={path('tokens.csv')}",
            "--authorization-mode=Node,RBAC", "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={path('accounts.pub')}",
            f"--service-account-signing-key-file={path('accounts.key')}",
            # The metrics of pods come from a server behind the aggregator.
            "--enable-aggregator-routing=true",
            f"--requestheader-client-ca-file={path('front-ca.crt')}",
            "--requestheader-allowed-names=aggregator",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={path('front.crt')}",
            f"--proxy-client-key-file={path('front.key')}",
            "--profiling=false",
        ]

    def address(self):
        """Say where it is."""
        return f"https://127.0.0.1:{_API_SERVER}"

    def ready(self):
        """Whether all its parts are."""
        return _answers(f"{self.address()}/readyz",
                        self._certificates.tokens["operator"])

    def api(self, user="operator"):
        """Return a client for a user."""
        return Api(_API_SERVER, self._certificates.path("ca.crt"), self._certificates.tokens[user])

    def kubeconfig(self, user):
        """Write the file with which a program reaches the API server as a user. Return its path."""
        text = json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "proof",
            "clusters": [{"name": "proof", "cluster": {
                "server": self.address(),
                "certificate-authority": self._certificates.path("ca.crt")}}],
            "users": [{"name": user, "user": {"token": self._certificates.tokens[user]}}],
            "contexts": [{"name": "proof", "context": {"cluster": "proof", "user": user}}]})
        path = self.folder / f"{user.replace(':', '-')}.kubeconfig"
        path.write_text(text, encoding="utf-8")
        return str(path)


class Controller(Service):
    """A program that reads and changes the objects of the API server, as a user of its own name."""

    def __init__(self, name, folder, programs, server, port, *flags):
        """Make the object. `port`: of its health. `flags`: those that only this program has."""
        super().__init__(name, folder / name)
        self._program = programs / name
        self._server = server
        self._port = port
        self._flags = flags

    def command(self):
        """Return the program and its arguments."""
        config = self._server.kubeconfig(f"system:{self.name}")
        return [str(self._program), f"--kubeconfig={config}",
                f"--authentication-kubeconfig={config}", f"--authorization-kubeconfig={config}",
                f"--cert-dir={self.folder}", "--leader-elect=false", "--profiling=false",
                *self._flags]

    def address(self):
        """Say where it is."""
        return f"https://127.0.0.1:{self._port}"

    def ready(self):
        """Whether it answers."""
        return _answers(f"{self.address()}/healthz")


class ControlPlane:
    """All of its programs, started in their order."""

    def __init__(self, folder, programs, certificates):
        """Make the object. `programs`: the folder of those that build_control_plane.sh makes."""
        self.etcd = Etcd("etcd", folder / "etcd")
        self.server = ApiServer(folder / "kube-apiserver", programs / "kube-apiserver", self.etcd,
                                certificates)
        # With its own choice of controllers and periods.
        self.controllers = Controller(
            "kube-controller-manager", folder, programs, self.server, _CONTROLLER_MANAGER,
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={certificates.path('accounts.key')}",
            f"--root-ca-file={certificates.path('ca.crt')}")
        self.scheduler = Controller("kube-scheduler", folder, programs, self.server, _SCHEDULER)

    def start(self):
        """Start the programs, and wait until they answer. Raises ServiceError."""
        for service in (self.etcd, self.server):
            service.start()
            service.wait_until_ready(120)
        for service in (self.controllers, self.scheduler):
            service.start()
        for service in (self.controllers, self.scheduler):
            service.wait_until_ready(120)

    def services(self):
        """Return all of them."""
        return [self.etcd, self.server, self.controllers, self.scheduler]

    def stop(self):
        """End all programs."""
        for service in reversed(self.services()):
            service.stop()


def _answers(url, token=None):
    context = ssl.create_default_context()
    context.check_hostname = False  # some certificates are made by the programs at their start
    context.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"}
                                     if token else {})
    try:
        with urllib.request.urlopen(request, timeout=2,
                                    context=context if url.startswith("https") else None) as answer:
            return answer.status == 200
    except (OSError, urllib.error.URLError):
        return False
