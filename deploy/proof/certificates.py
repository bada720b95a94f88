"""Keys, certificates and tokens of the control plane."""

import secrets

from cell import NODE_ADDRESS, command

NODE = "proof"
# User: groups. The first one is the operator's.
USERS = {
    "operator": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    f"system:node:{NODE}": "system:nodes",
}
_NAMES = ("DNS:localhost,DNS:kubernetes.default.svc,DNS:longstream-metrics.longstream.svc,"
          f"IP:127.0.0.1,IP:{NODE_ADDRESS},IP:10.96.0.1")


class Certificates:
    """Files in a folder. One authority signs all certificates, another one those of the aggregator."""

    def __init__(self, folder):
        """Make all files."""
        folder.mkdir(parents=True)
        self._folder = folder
        self._make_authority("ca")
        self._make_authority("front-ca")
        self._sign("server", "ca", "/CN=kube-apiserver", f"subjectAltName={_NAMES}")
        self._sign("front", "front-ca", "/CN=aggregator", "extendedKeyUsage=clientAuth")
        command("openssl", "genrsa", "-out", self.path("accounts.key"), "2048")
        command("openssl", "rsa", "-in", self.path("accounts.key"), "-pubout", "-out",
                self.path("accounts.pub"))
        self.tokens = {user: secrets.token_urlsafe(32) for user in USERS}
        rows = [f'{self.tokens[user]},{user},{user},"{groups}"\n' for user, groups in USERS.items()]
        (folder / "tokens.csv").write_text("".join(rows), encoding="utf-8")

    def path(self, name):
        """Return the path of a file: NAME.key, NAME.crt, accounts.pub, tokens.csv."""
        return str(self._folder / name)

    def text(self, name):
        """Return the text of a file."""
        return (self._folder / name).read_text(encoding="utf-8")

    def _make_authority(self, name):
        command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj",
                f"/CN={name}", "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.crt"))

    def _sign(self, name, authority, subject, extensions):
        (self._folder / f"{name}.ext").write_text(extensions, encoding="utf-8")
        command("openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", subject,
                "-keyout", self.path(f"{name}.key"), "-out", self.path(f"{name}.csr"))
        command("openssl", "x509", "-req", "-days", "30", "-in", self.path(f"{name}.csr"), "-CA",
                self.path(f"{authority}.crt"), "-CAkey", self.path(f"{authority}.key"),
                "-CAcreateserial", "-extfile", self.path(f"{name}.ext"), "-out",
                self.path(f"{name}.crt"))
