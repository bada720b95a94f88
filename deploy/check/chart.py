"""The chart follows Helm's rules, makes what its values say, and refuses values that make no server."""

import helm_python
import render

HTTP = "0.0.0.0:8080"
CERTIFICATE = {"certificate": "/etc/tls/tls.crt", "key": "/etc/tls/tls.key"}
HOST = {"httpHostnames": ["api.example.org"]}
# Replicas that show each other certificates, so that the chart does not need tokens in plain text for them.
CERTIFIED = {"tls": CERTIFICATE, "security": {"plaintext_tokens": None}, "fleet": {"token_file": None}}
# As ../helm/values/dev.yaml: one replica.
ALONE = {"fleet": {"enabled": False}, "replicas": 1, "autoscaling": {"kind": "none"},
         "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}, "volumes": {"store": {"enabled": True}}}

WARNING = 2  # severity of Helm; 1 are recommendations

# Values of which the server would not start or that Kubernetes would not take: the schema, or a template,
# must refuse them.
REFUSED = {
    "no fleet, and the rest for a fleet": {"fleet": {"enabled": False}},
    "a server's key that does not exist": {"server": {"lissten": "0.0.0.0:50051"}},
    "a grace time that Helm reads as octal": {"server": {"grace": "030s"}},
    "a listener that the kubelet cannot reach": {"server": {"cluster": {"listen": "127.0.0.1:9465"}}},
    "a listener that clients cannot reach": {"server": {"listen": "127.0.0.1:50051"}},
    "a fleet with a store of its own": {"server": {"store": {"url": "/var/lib/longstream/store"}}},
    "a fleet without a store": {"server": {"store": None}},
    "a number of replicas that is scaled too": {"replicas": 3},
    "fewer replicas at most than at least": {"autoscaling": {"minReplicas": 9}},
    "a rollout that cannot begin": {"rollingUpdate": {"maxSurge": 0}},
    "listeners without IPv6 where pods have it": {"fleet": {"ipv6": True}},
    "a negative surge": {"rollingUpdate": {"maxSurge": -1}},
    "a key of a model that does not exist": {
        "server": {"models": [{"name": "m", "directory": "/models/m", "device": "cpu", "optoins": {}}]}},
    "a fleet without its section of server.yaml": {"server": {"fleet": None}},
    "a fleet without security": {"server": {"security": None}},
    "a fleet without credentials": {"server": {"security": {"credentials": None}}},
    "credentials that are not mounted": {"server": {"security": {"credentials": "/var/lib/longstream/credentials"}}},
    "a password that is not mounted": {"server": {"store": {"password_file": "/etc/longstream/password"}}},
    "a token that is not mounted": {"server": {"fleet": {"token_file": "/run/secrets/peer-token"}}},
    "replicas without a token and a certificate": {"server": {"fleet": {"token_file": None}}},
    "a token that plain text may not carry": {"server": {"security": {"plaintext_tokens": False}}},
    "a route without a host": {"gateway": {"hostnames": []}},
    "a route without a Gateway": {"gateway": {"name": ""}},
    "a route to a Gateway of no namespace": {"gateway": {"namespace": ""}},
    "an objective between two bounds of the histogram": {"monitoring": {"objectives": {"firstToken": 3}}},
    "a pull policy that does not exist": {"image": {"pullPolicy": "Sometimes"}},
    "a pull secret without a name": {"imagePullSecrets": ["registry"]},
    "an annotation that is no text": {"podAnnotations": {"restarted": True}},
    "an affinity that does not exist": {"affinity": {"nodeAffinities": {}}},
    "a database behind any address": {"database": {"to": []}},
    "a database behind no port": {"database": {"port": 0}},
    "a database behind an unknown kind of address": {"database": {"to": [{"cidr": "192.0.2.7/32"}]}},
    "a volume without a name": {"extraVolumes": [{"emptyDir": {}}]},
    "a mount on a volume of the chart": {
        "extraVolumeMounts": [{"name": "tls", "mountPath": "/etc/longstream/tls"}]},
    "an HTTP listener that clients cannot reach": {"server": {"http": {"listen": "127.0.0.1:8080"}}},
    "an HTTP listener at another port": {"server": {"http": {"listen": "0.0.0.0:8081"}}},
    "an HTTP listener without IPv6 where pods have it": {
        "fleet": {"ipv6": True}, "server": {"listen": "[::]:50051", "metrics_listen": "[::]:9464",
                                            "cluster": {"listen": "[::]:9465"}, "http": {"listen": HTTP}}},
    "a key of http that does not exist": {"server": {"http": {"listen": HTTP, "max_session": 10}}},
    "a server without HTTP connections": {"server": {"http": {"max_connections": 0}}},
    "too many HTTP connections": {"server": {"http": {"max_connections": 65537}}},
    "a server without HTTP requests": {"server": {"http": {"max_requests": 0}}},
    "too many HTTP requests": {"server": {"http": {"max_requests": 65537}}},
    "HTTP bodies of a few bytes": {"server": {"http": {"max_body_bytes": 1023}}},
    "HTTP bodies above a GiB": {"server": {"http": {"max_body_bytes": 1073741825}}},
    "pages of a host without a scheme": {"server": {"http": {"allowed_origins": ["chat.example.com"]}}},
    "HTTP bodies of GiB": {"server": {"http": {"max_body_bytes": "2GiB"}}},
    "a server without sessions for HTTP": {"server": {"http": {"max_sessions": 0}}},
    "too many sessions for HTTP": {"server": {"http": {"max_sessions": 16777217}}},
    "sessions of HTTP that stay for days": {"server": {"http": {"idle_timeout": "48h"}}},
    "a time in the store without a unit": {"server": {"http": {"ttl": "24"}}},
    "durable that is a text": {"server": {"http": {"durable": "yes"}}},
    "fewer than no tokens": {"server": {"http": {"default_max_tokens": -1}}},
    "too many tokens": {"server": {"http": {"default_max_tokens": 4294967296}}},
    "an HTTP certificate without a key": {"server": {"http": {"tls": {"certificate": "/etc/tls/tls.crt"}}}},
    "HTTP client certificates without an authority": {
        "server": {"http": {"tls": {**CERTIFICATE, "client_certificates": "required"}}}},
    "an HTTP token that plain text may not carry": {
        "server": {**CERTIFIED, "security": {"plaintext_tokens": False}, "http": {"listen": HTTP}}},
    "an HTTP token without a word on plain text": {"server": {**CERTIFIED, "http": {"listen": HTTP}}},
    "stored answers without a store": {
        **ALONE, "server": {"store": {"url": None}, "http": {"listen": HTTP, "durable": True}}},
    "an HTTP route without a port": {"gateway": HOST},
    "an HTTP route to no listener": {"gateway": HOST, "server": {"http": {"listen": ""}}},
}


# Values, and what the chart makes of them.
MADE = {
    "addresses of IPv6": (
        {"fleet": {"ipv6": True},
         "server": {"listen": "[::]:50051", "metrics_listen": "[::]:9464",
                    "cluster": {"listen": "[::]:9465"}}},
        "--peer-listen=[$(POD_IP)]:50052"),
    "the time of a long grace": ({"server": {"grace": "600s"}}, "terminationGracePeriodSeconds: 655"),
    "replicas that show certificates": (
        {"server": CERTIFIED}, "certificate: /etc/tls/tls.crt"),
    "an objective of whole seconds": (
        {"monitoring": {"objectives": {"firstToken": 5}}}, 'first_token_seconds_bucket{le=~"5|5.0"}[1h]'),
    "the text of an objective": (
        {"monitoring": {"objectives": {"nextToken": 0.25}}}, "tokens come later than 0.25 s"),
    "a port for HTTP": (
        {"server": {"http": {"listen": HTTP}}}, "- name: http\n              containerPort: 8080"),
    "a port for HTTP on IPv6": ({"server": {"http": {"listen": "[::]:8080"}}}, "targetPort: http"),
    "HTTP clients that stay at a replica": (
        {"server": {"http": {"listen": HTTP}}}, "sessionAffinity: ClientIP"),
    "HTTP with a certificate": (
        {"server": {**CERTIFIED, "http": {"listen": HTTP, "tls": CERTIFICATE}}}, "appProtocol: https"),
    "HTTP in plain text": ({"server": {"http": {"listen": HTTP}}}, "appProtocol: http\n"),
    "HTTP without credentials": (
        {**ALONE, "server": {"security": None, "store": {"url": "/var/lib/longstream/store"},
                             "http": {"listen": HTTP, "durable": True}}}, "port: 8080"),
    "the keys of http": (
        {"server": {"http": {"listen": "", "max_connections": 65536, "max_requests": 1, "max_sessions": 16777216,
                             "max_body_bytes": "1GiB", "idle_timeout": "1h30m", "durable": False, "ttl": "720h",
                             "default_max_tokens": 4294967295, "page": False,
                             "allowed_origins": ["https://chat.example.com", "*"], "tls": {**CERTIFICATE, "client_ca": "/etc/tls/ca.crt",
                                                                       "client_certificates": "required"}}}},
        "default_max_tokens: 4294967295"),
    "numbers of http as numbers": (
        {"server": {"http": {"max_body_bytes": 1073741824}}}, "max_body_bytes: 1073741824"),
    "an HTTP route of another Gateway": (
        {"gateway": {**HOST, "envoyGateway": False}, "server": {"http": {"listen": HTTP}}}, "kind: HTTPRoute"),
}


def _files(loaded, values, name=render.NAME):
    loaded.validate_schema(values)
    return list(loaded.render(values, name=name, namespace=render.NAMESPACE).values())


def rendered(deploy, values):
    """The files that the chart makes of some values. Fails with HelmError."""
    with render.chart_folder(deploy) as folder, helm_python.Chart.load(folder) as loaded:
        return _files(loaded, values)


def _names(loaded):
    """A release has a name of which all objects can make theirs."""
    for length, fits in ((47, True), (48, False)):
        try:
            _files(loaded, {}, "a" * length)
            taken = True
        except helm_python.HelmError:
            taken = False
        if taken != fits:
            yield f"the chart {'takes' if taken else 'refuses'} a release with a name of {length} characters"


def _values(loaded):
    """The chart makes what its values say, and refuses values that make no server."""
    for name, (values, wanted) in MADE.items():
        try:
            if wanted not in "\n".join(_files(loaded, values)):
                yield f"the chart does not make {name}: {wanted}"
        except helm_python.HelmError as error:
            yield f"the chart does not make {name}: {error}"
    for name, values in REFUSED.items():
        try:
            _files(loaded, values)
            yield f"the chart takes {name}"
        except helm_python.HelmError:
            pass


def check(deploy):
    """The chart follows Helm's rules, with the values of each overlay, and refuses values that make no
    server."""
    try:
        with render.chart_folder(deploy) as folder, helm_python.Chart.load(folder) as loaded:
            yield from _names(loaded)
            yield from _values(loaded)
    except helm_python.HelmError as error:
        yield f"the chart: {error}"
    for overlay in render.OVERLAYS:
        try:
            with render.chart_folder(deploy) as folder:
                found = helm_python.lint(folder, render.values_of(deploy, overlay), strict=True,
                                         quiet=True)
        except helm_python.HelmError as error:
            yield f"{overlay}: {error}"
            continue
        for message in found.get("messages") or ():
            if message["severity"] >= WARNING:
                yield f"{overlay}: {message['path']}: {message['error']}"
