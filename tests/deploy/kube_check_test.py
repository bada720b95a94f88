"""`make kube-check` finds an error of each kind in each kind of file: a typo is planted in a copy of
deploy/, and the check that is meant for it must name it."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "deploy/check"))

import kube_check  # noqa: E402
import render  # noqa: E402
import run_all  # noqa: E402
import schemas  # noqa: E402

BASE = "kubernetes/base/"
PARTS = "kubernetes/components/"
OVERLAY = "kubernetes/overlays/cpu/"
EXAMPLE = "kubernetes/overlays/example/"
AB = "kubernetes/overlays/ab/"
HTTP = PARTS + "http/"
HTTP_GATEWAY = PARTS + "http-gateway/"
BY_HAND = "kubernetes/by-hand/"
CHART = "helm/longstream/"
SCHEMA = CHART + "values.schema.json"

# An error is looked for in one overlay, because that is faster: cpu, or the one named here.
OVERLAYS = {name: "gpu" for name in (
    "scaled_object", "pool", "values", "scaler_port", "pool_port", "picker_port", "picker_name",
    "signal")}
OVERLAYS.update({name: "ab" for name in (
    "server_model", "http_affinity", "http_route", "http_policy", "http_port", "http_closed", "http_component",
    "http_service", "http_route_port", "http_backend", "http_target", "http_first_rule", "http_path", "http_page",
    "http_rule", "chart_http", "chart_http_route", "chart_http_rule", "chart_http_policy", "server_http")})
OVERLAYS.update({name: "example" for name in (
    "http_namespace", "example_grace", "example_database", "example_namespace", "example_values", "example_objective",
    "alert_words", "chart_objective", "chart_database", "chart_volumes")})

# One of overlays that the chart does not make, instead of the above.
FURTHER = {"grace_of_proof": "proof/overlay", "last_writes": "proof/overlay"}

# Name: (check, file, what is there, what is written instead, what the check says)
PLANTED = {
    "kustomization": ("schemas", OVERLAY + "kustomization.yaml", "resources:", "resource:", "resource"),
    "style": ("yamllint", BASE + "services.yaml", "  clusterIP: None", "  clusterIP: None ", "trailing"),
    "broken_yaml": ("yamllint", CHART + "values.yaml", "server:", "server: [", "syntax"),
    "deployment": ("schemas", BASE + "deployment.yaml", "readOnlyRootFilesystem", "readOnlyRootFileSystem",
                   "readOnlyRootFileSystem"),
    "service": ("schemas", BASE + "services.yaml", "clusterIP", "clusterIp", "clusterIp"),
    "claim": ("schemas", BASE + "volumes.yaml", "accessModes", "accessMode", "accessMode"),
    "policy": ("schemas", BASE + "networkpolicies.yaml", "policyTypes", "policyType", "policyType"),
    "budget": ("schemas", PARTS + "fleet/disruption-budget.yaml", "maxUnavailable", "maxUnavailible",
               "maxUnavailible"),
    "hpa": ("schemas", PARTS + "hpa/autoscaler.yaml", "averageValue: 800m", "averageVal: 800m",
            "averageVal"),
    "scaled_object": ("schemas", PARTS + "keda/scaled-object.yaml", "maxReplicaCount", "maxReplicas",
                      "maxReplicas"),
    "route": ("schemas", PARTS + "gateway/route.yaml", "hostnames", "hostNames", "hostNames"),
    "pool": ("schemas", PARTS + "inference-pool/pool.yaml", "FailOpen", "FailOpened", "FailOpened"),
    "pod_monitor": ("schemas", PARTS + "monitoring/pod-monitor.yaml", "interval", "intervall",
                    "intervall"),
    "traffic_policy": ("schemas", PARTS + "envoy-gateway/traffic-policy.yaml", "requestTimeout", "requestsTimeout",
                       "requestsTimeout"),
    "picker_values": ("schemas", PARTS + "inference-pool/llm-d-router.yaml", "pluginsCustomConfig",
                      "pluginsCustomConfigs", "pluginsCustomConfigs"),
    "picker_config": ("schemas", PARTS + "inference-pool/llm-d-router.yaml", "queuedRequestsSpec",
                      "queueRequestsSpec", "queueRequestsSpec"),
    "picker_plugin": ("schemas", PARTS + "inference-pool/llm-d-router.yaml", "- pluginRef: queue-scorer",
                      "- pluginRef: queue-scorers", "queue-scorers"),
    "adapter_rule": ("schemas", PARTS + "hpa/prometheus-adapter.yaml", "seriesQuery", "seriesQueries",
                     "seriesQueries"),
    "rule": ("schemas", PARTS + "monitoring/alerts.yaml", "annotations:", "annotation:", "annotation"),
    "grace": ("references", OVERLAY + "server.yaml", "grace: 30s", "grace: 40s", "make 95"),
    "grace_of_proof": ("references", "proof/overlay/server.yaml", "grace: 10s", "grace: 20s",
                       "proof/overlay: terminationGracePeriodSeconds is 45"),
    "last_writes": ("references", CHART + "templates/_names.tpl", "$drain 15", "$drain 20", "20 s make 50"),
    "startup": ("references", BASE + "deployment.yaml", "progressDeadlineSeconds: 3900",
                "progressDeadlineSeconds: 1800", "gives a replica 3600 s"),
    "port": ("references", OVERLAY + "server.yaml", "0.0.0.0:9465", "0.0.0.0:9466", "cluster"),
    "probe": ("references", BASE + "deployment.yaml", "port: 9465", "port: 50051", "startupProbe"),
    "service_port": ("references", BASE + "services.yaml", "port: 50051", "port: 50052", "port grpc is 50052"),
    "peer_argument": ("references", PARTS + "fleet/deployment.yaml", "$(POD_IP):50052", "$(POD_IP):50053",
                      "--peer-listen"),
    "peer_policy": ("references", PARTS + "fleet/networkpolicies.yaml", "port: 50052", "port: 50053", "50053"),
    "route_port": ("references", PARTS + "gateway/route.yaml", "port: 50051", "port: 50052", "GRPCRoute"),
    "scaler_port": ("references", PARTS + "keda/scaled-object.yaml", "svc:9465", "svc:9464", "svc:9464"),
    "pool_port": ("references", PARTS + "inference-pool/pool.yaml", "number: 50051", "number: 50052", "InferencePool"),
    "picker_port": ("references", PARTS + "inference-pool/llm-d-router.yaml", "port: 9464", "port: 9465",
                    "reads port 9465"),
    "picker_name": ("references", PARTS + "inference-pool/pool.yaml", "longstream-router-epp",
                    "longstream-routers-epp", "not the picker"),
    "policy_target": ("references", PARTS + "envoy-gateway/traffic-policy.yaml", "name: longstream\n  #",
                      "name: longstrem\n  #", "longstrem"),
    "selector": ("references", BASE + "services.yaml", "name: longstream\n    app", "name: longstrem\n    app",
                 "select"),
    "backend": ("references", PARTS + "gateway/route.yaml", "- name: longstream\n", "- name: longstrem\n",
                "longstrem"),
    "target": ("references", PARTS + "hpa/autoscaler.yaml", "kind: Deployment\n    name: longstream",
               "kind: Deployment\n    name: longstrem", "longstrem"),
    "prefix_route": ("other names", PARTS + "gateway/names.yaml", "spec/rules/backendRefs/name",
                     "spec/rules/backendRef/name", "GRPCRoute other-longstream: no Service longstream"),
    "prefix_policy": ("other names", PARTS + "envoy-gateway/names.yaml", "kind: GRPCRoute", "kind: HTTPRoute",
                      "BackendTrafficPolicy"),
    "prefix_scaler": ("other names", PARTS + "keda/names.yaml", "scaleTargetRef", "scaleTarget", "ScaledObject"),
    "other_namespace": ("other names", "README.md", "index: 3", "index: 1", "asks for namespace longstream"),
    "probe_name": ("words", BASE + "deployment.yaml", "service: ready", "service: raedy", "startupProbe: service raedy"),
    "signal": ("words", PARTS + "keda/scaled-object.yaml", "metricName: turns_waiting", "metricName: turns_wating",
               "turns_wating is no signal"),
    "route_service": ("words", PARTS + "gateway/route.yaml", "longstream.v1.Longstream", "longstream.v1.Longstrem",
                      "longstream.v1.Longstrem is no service"),
    "session_header": ("words", PARTS + "envoy-gateway/traffic-policy.yaml", "x-session-id", "x-sesion-id",
                       "header x-sesion-id"),
    "picker_header": ("words", PARTS + "inference-pool/llm-d-router.yaml", "x-session-id", "x-sesion-id",
                      "header x-sesion-id"),
    "mounted_file": ("words", PARTS + "fleet/deployment.yaml", "path: peer-token", "path: peer-tokens",
                     "/etc/longstream/peer-token is not mounted"),
    "secret_key": ("words", PARTS + "fleet/deployment.yaml", "key: peer-token", "key: peer_token", "key peer_token"),
    "volume_path": ("words", OVERLAY + "server.yaml", "/var/cache/", "/var/caches/", "is in no volume"),
    "policy_label": ("words", PARTS + "fleet/networkpolicies.yaml", "dev/database", "dev/databse", "dev/databse"),
    "policy_space": ("words", BASE + "networkpolicies.yaml", "kube-system", "kube-sytem", "kube-sytem"),
    "policy_port": ("words", BASE + "networkpolicies.yaml", "dev/autoscaler", "dev/gateway",
                    "dev/gateway: true, to replicas, port cluster"),
    "policy_page": ("words", "README.md", "`access.longstream.dev/database`", "`access.longstream.dev/databse`",
                    "no rule for access.longstream.dev/databse"),
    "notes": ("notes of the chart", CHART + "templates/NOTES.txt", '"%s-store"', '"%s-stores"', "no pod uses Secret other-stores"),
    "notes_claim": ("notes of the chart", CHART + "templates/NOTES.txt", '"%s-models"', '"%s-model"',
                    "does not tell the claim other-models"),
    "durations": ("references", OVERLAY + "server.yaml", "grace: 30s", "grace: 1m", "grace is 1m"),
    "values": ("chart = kustomize", "helm/values/gpu.yaml", "maxSurge: 0", "maxSurg: 0", "maxSurg"),
    "template": ("chart = kustomize", CHART + "templates/deployment.yaml", "failureThreshold: 720",
                 "failureThreshold: 72", "failureThreshold"),
    "formula": ("chart = kustomize", CHART + "templates/_names.tpl", "$drain 15", "$drain 10",
                "terminationGracePeriodSeconds"),
    "template_syntax": ("helm lint", CHART + "templates/services.yaml", "{{- if", "{{- iff", "iff"),
    "schema_of_values": ("chart = kustomize", CHART + "values.schema.json", '"enum": ["hpa"', '"enum": ["hba"',
                         "autoscaling"),
    "schema_of_fleet": ("helm lint", CHART + "values.schema.json", '"then": {\n    "description": "without a fleet',
                        '"than": {\n    "description": "without a fleet', "no fleet"),
    "schema_of_models": ("helm lint", SCHEMA, '"items": {"$ref": "#/definitions/model"}', '"items": {}',
                         "key of a model"),
    "schema_of_section": ("helm lint", SCHEMA, '["store", "fleet", ', '["store", ', "without its section"),
    "schema_of_security": ("helm lint", SCHEMA, '"fleet", "security"]', '"fleet"]', "a fleet without security"),
    "schema_of_needed": ("helm lint", SCHEMA, '"required": ["credentials"], ', "", "a fleet without credentials"),
    "schema_of_credentials": ("helm lint", SCHEMA, '{"const": "/etc/longstream/credentials"}', "{}", "credentials that are"),
    "schema_of_password": ("helm lint", SCHEMA, '{"const": "/etc/longstream/store-password"}', "{}", "a password that"),
    "schema_of_token": ("helm lint", SCHEMA, '{"const": "/etc/longstream/peer-token"}', "{}", "a token that is not"),
    "schema_of_shown": ("helm lint", SCHEMA, '"fleet": {"required": ["token_file"]}', '"fleet": {}', "without a token"),
    "http_affinity": ("schemas", HTTP + "service.yaml", "timeoutSeconds", "timeoutSecond", "timeoutSecond"),
    "http_route": ("schemas", HTTP_GATEWAY + "route.yaml", "hostnames", "hostNames", "hostNames"),
    "http_policy": ("schemas", HTTP_GATEWAY + "traffic-policy.yaml", "type: SourceIP", "type: Headers",
                    "'headers' is a required property"),
    "http_port": ("references", AB + "server.yaml", "0.0.0.0:8080", "127.0.0.1:8080", "http.listen is 127.0.0.1:8080"),
    "http_closed": ("references", AB + "server.yaml", "listen: 0.0.0.0:8080", "max_requests: 16", "no http.listen"),
    "http_component": ("references", AB + "kustomization.yaml", "  - ../../components/http\n", "",
                       "no port http (component http)"),
    "http_service": ("references", HTTP + "service.yaml", "port: 8080", "port: 80", "port http is 80"),
    "http_route_port": ("references", HTTP_GATEWAY + "route.yaml", "port: 8080", "port: 50051",
                        "HTTPRoute longstream-http: not the port 8080"),
    "http_backend": ("references", HTTP_GATEWAY + "route.yaml", "- name: longstream-http", "- name: longstream-htp",
                     "no Service longstream-htp"),
    "http_target": ("references", HTTP_GATEWAY + "traffic-policy.yaml", "      name: longstream-http",
                    "      name: longstream-htp", "no HTTPRoute longstream-htp"),
    "http_first_rule": ("references", BASE + "networkpolicies.yaml", "- port: grpc", "- port: cluster", "kustomize ab"),
    "http_namespace": ("references", EXAMPLE + "kustomization.yaml", "namespace: assistants", "namespace: ''",
                       "Service longstream-http: is in no namespace"),
    "prefix_http_route": ("other names", HTTP_GATEWAY + "names.yaml", "spec/rules/backendRefs/name",
                          "spec/rules/backendRef/name", "HTTPRoute other-longstream-http: no Service longstream-http"),
    "prefix_http_policy": ("other names", HTTP_GATEWAY + "names.yaml", "spec/targetRefs/name", "spec/targetRef/name",
                           "no HTTPRoute longstream-http"),
    "http_path": ("words", HTTP_GATEWAY + "route.yaml", "value: /v1", "value: /v2", "no route to /v1/chat/completions"),
    "http_page": ("words", "README.md", "to replicas | grpc, http |", "to replicas | grpc |",
                  "port http: not in deploy/README.md"),
    "http_rule": ("words", HTTP + "kustomization.yaml", "{port: http}", "{port: peers}",
                  "no rule for access.longstream.dev/client, to replicas, port http"),
    "chart_http": ("chart = kustomize", CHART + "templates/services.yaml", "timeoutSeconds: 10800",
                   "timeoutSeconds: 1080", "timeoutSeconds"),
    "chart_http_route": ("chart = kustomize", CHART + "templates/gateway.yaml", "value: /v1", "value: /", "path.value"),
    "chart_http_rule": ("chart = kustomize", CHART + "templates/networkpolicies.yaml", "- port: http", "- port: peers",
                        "kustomize has 'http'"),
    "chart_http_policy": ("chart = kustomize", CHART + "templates/gateway.yaml",
                          "httpHostnames .Values.gateway.envoyGateway", "httpHostnames .Values.inferencePool.enabled",
                          "does not make BackendTrafficPolicy longstream-http"),
    "server_http": ("server.yaml", AB + "server.yaml", "listen: 0.0.0.0:8080", "listens: 0.0.0.0:8080", "listens"),
    "http_schema_listen": ("helm lint", SCHEMA, '\\\\]):8080)?$"', '\\\\]|127.0.0.1):8080)?$"', "HTTP listener that clients"),
    "http_schema_number": ("helm lint", SCHEMA, '\\\\]):8080)?$"', '\\\\]):808.)?$"', "HTTP listener at another port"),
    "http_schema_key": ("helm lint", SCHEMA, "of sessions\",\n          \"additionalProperties\": false",
                        "of sessions\",\n          \"additionalProperties\": true", "a key of http"),
    "http_schema_body": ("helm lint", SCHEMA, '"maximum": 1073741824', '"maximum": 1073741825', "bodies above a GiB"),
    "http_schema_time": ("helm lint", SCHEMA, "|2[0-4])h|", "|[2-9][0-9])h|", "stay for days"),
    "http_schema_tokens": ("helm lint", SCHEMA, '"maximum": 4294967295', '"maximum": 4294967296', "too many tokens"),
    "http_schema_key_file": ("helm lint", SCHEMA, '"required": ["certificate", "key"]', '"required": ["certificate"]',
                             "certificate without a key"),
    "http_schema_plain": ("helm lint", SCHEMA, '{"const": true}}}}\n', "{}}}}\n", "an HTTP token that plain text"),
    "http_schema_store": ("helm lint", SCHEMA, '"store": {"required": ["url"]}', '"store": {}', "stored answers"),
    "http_schema_route": ("helm lint", SCHEMA, '"then": {\n        "description": "a route needs',
                          '"than": {\n        "description": "a route needs', "HTTP route without a port"),
    "http_address_family": ("helm lint", CHART + "templates/deployment.yaml", '(include "longstream.http" .)) }}', ") }}",
                            "HTTP listener without IPv6"),
    "http_certificate": ("helm lint", CHART + "templates/services.yaml", 'ternary "https"', 'ternary "http"',
                         "HTTP with a certificate"),
    "schema_of_plain": ("helm lint", SCHEMA, '{"const": true}}}\n', "{}}}\n", "a token that plain text"),
    "schema_of_tls": ("helm lint", SCHEMA, '"if": {"not": {"required": ["tls"]}}', '"if": {}', "replicas that show"),
    "schema_of_hosts": ("helm lint", SCHEMA, '"hostnames": {"minItems": 1}', '"hostnames": {}', "without a host"),
    "schema_of_gateway": ("helm lint", SCHEMA, '"properties": {"name": {"minLength": 1}', '"properties": {"name": {}',
                          "without a Gateway"),
    "schema_of_namespace": ("helm lint", SCHEMA, '"namespace": {"minLength": 1}', '"namespace": {}', "of no namespace"),
    "schema_of_objectives": ("helm lint", SCHEMA, '{"enum": [0.1, 0.25, 0.5, 1, 2.5', '{"enum": [3',
                             "between two bounds"),
    "schema_of_pulls": ("helm lint", SCHEMA, '{"enum": ["Always", "IfNotPresent", "Never"]}', "{}", "a pull policy"),
    "schema_of_secrets": ("helm lint", SCHEMA, '"imagePullSecrets": {"type": "array", "items"',
                          '"imagePullSecrets": {"type": "array", "item"', "a pull secret"),
    "schema_of_annotations": ("helm lint", SCHEMA, '"podAnnotations": {"$ref": "#/definitions/strings"}',
                              '"podAnnotations": {}', "an annotation"),
    "schema_of_affinity": ("helm lint", SCHEMA, '"affinity": {"type": "object", "additionalProperties": false',
                           '"affinity": {"type": "object", "additionalProperties": true', "an affinity"),
    "schema_of_database": ("helm lint", SCHEMA, '"minItems": 1,\n          "description": "an empty',
                           '"minItems": 0,\n          "description": "an empty', "behind any address"),
    "schema_of_port": ("helm lint", SCHEMA, '"port": {"type": "integer", "minimum": 1', '"port": {"type": "integer"',
                       "behind no port"),
    "schema_of_peers": ("helm lint", SCHEMA, '"minProperties": 1,\n            "additionalProperties": false',
                        '"minProperties": 1', "unknown kind of address"),
    "schema_of_volumes": ("helm lint", SCHEMA, '"extraVolumes": {"type": "array", "items"',
                          '"extraVolumes": {"type": "array", "item"', "a volume without a name"),
    "schema_of_mounts": ("helm lint", SCHEMA, '"^/(etc/longstream|', '"^/(', "a mount on a volume"),
    "long_release": ("helm lint", CHART + "templates/_names.tpl", 'len "-endpoint-picker"', 'len "-picker"',
                     "a name of 48 characters"),
    "whole_seconds": ("helm lint", CHART + "templates/_names.tpl", '"%v|%v.0"', '"%v|%v"', "whole seconds"),
    "example_values": ("chart = kustomize", "helm/values/example.yaml", "priorityClassName: serving",
                       "priorityClassName: server", "priorityClassName"),
    "chart_objective": ("chart = kustomize", CHART + "templates/_names.tpl", 'replace "later than 0.1 s after"',
                        'replace "later then 0.1 s after"', "summary"),
    "chart_database": ("chart = kustomize", CHART + "templates/fleet.yaml", "{{ .Values.database.port }}", "5432",
                       "5433"),
    "chart_volumes": ("chart = kustomize", CHART + "templates/deployment.yaml", "with .Values.extraVolumeMounts",
                      "with .Values.extraVolumes", "volumeMounts"),
    "alert_words": ("chart = kustomize", PARTS + "alerts/kustomization.yaml", "index: 12", "index: 11", "summary"),
    "example_grace": ("references", EXAMPLE + "deployment.yaml", "PeriodSeconds: 175", "PeriodSeconds: 85", "make 175"),
    "example_database": ("references", EXAMPLE + "server.yaml", ":5433/", ":5434/", "no NetworkPolicy"),
    "example_namespace": ("references", EXAMPLE + "kustomization.yaml", "index: 3", "index: 1",
                          "asks for namespace longstream"),
    "example_objective": ("objectives", EXAMPLE + "alerts.yaml", "bound: 5|5.0", 'bound: "5"', "Prometheus 3"),
    "alert_bound": ("objectives", PARTS + "monitoring/alerts.yaml", 'le=~"2.5"', 'le=~"3.5"', "the bounds are"),
    "chart_bound": ("objectives", SCHEMA, '"enum": [0.1, 0.25', '"enum": [0.1, 0.3', "no bound"),
    "hand_schema": ("by hand", BY_HAND + "store-check.yaml", "backoffLimit", "backOffLimit", "backOffLimit"),
    "hand_user": ("by hand", BY_HAND + "fill-models.yaml", "runAsNonRoot: true", "runAsNonRoot: false",
                  "runAsNonRoot"),
    "hand_capabilities": ("by hand", BY_HAND + "store-check.yaml", "- ALL", "- NET_RAW", "capabilities"),
    "hand_claim": ("by hand", BY_HAND + "fill-models.yaml", "claimName: longstream-models",
                   "claimName: longstream-model", "no claim"),
    "hand_replica": ("by hand", BY_HAND + "store-check.yaml", "  template:\n", "  template:\n    metadata:\n"
                     "      labels: {app.kubernetes.io/name: longstream, app.kubernetes.io/instance: longstream}\n",
                     "the labels of a replica"),
    "restricted": ("by hand", BASE + "deployment.yaml", "type: RuntimeDefault", "type: Unconfined", "seccompProfile"),
    "example_password": ("examples", "README.md", "sources.2.secret", "sources.9.secret", "A new password"),
    "example_chart": ("examples", "README.md", "extraVolumes:", "extraVolume:", "Files of your own"),
    "example_mount": ("examples", "README.md", "{name: keys, mountPath:", "{name: kys, mountPath:",
                      "volume kys"),
    "example_policy": ("examples", "README.md", "ports: [{port: cluster}]", "ports: [{port: clusters}]",
                       "the container has no port clusters"),
    "adapter_address": ("schemas", PARTS + "hpa/prometheus-adapter.yaml", "url: http", "address: http", "address"),
    "schema_of_scaling": ("helm lint", CHART + "values.schema.json", '{"type": "null"}', "{}", "is scaled too"),
    "limits_of_scaling": ("helm lint", CHART + "templates/autoscaling.yaml", "if gt", "if lt", "fewer replicas"),
    "address_family": ("helm lint", CHART + "templates/deployment.yaml", "| default false", "| default true | not",
                       "IPv6"),
    "kept_claim": ("chart = kustomize", CHART + "templates/volumes.yaml", "helm.sh/resource-policy",
                   "helm.sh/resource-polici", "resource-polici"),
    "server_key": ("server.yaml", OVERLAY + "server.yaml", "plaintext_tokens", "plain_tokens",
                   "plain_tokens"),
    "server_model": ("server.yaml", "kubernetes/overlays/ab/server.yaml", "dense: 50", "dence: 50", "dence"),
    "server_flag": ("server.yaml", PARTS + "fleet/deployment.yaml", "--peer-listen", "--peers-listen",
                    "peers-listen"),
    "alert_metric": ("metrics and runbooks", PARTS + "monitoring/alerts.yaml", "longstream_store_state",
                     "longstream_store_stat", "longstream_store_stat"),
    "dashboard_metric": ("metrics and runbooks", PARTS + "monitoring/make_dashboard.py",
                         "longstream_claims_total", "longstream_claim_total", "longstream_claim_total"),
    "dashboard_file": ("metrics and runbooks", PARTS + "monitoring/dashboard.json", '"Sessions owned"',
                       '"Sessions"', "make_dashboard.py"),
    "adapter_metric": ("metrics and runbooks", PARTS + "hpa/prometheus-adapter.yaml",
                       "(longstream_load_turns_waiting", "(longstream_load_turn_waiting", "longstream_load_turn_waiting"),
    "picker_metric": ("metrics and runbooks", PARTS + "inference-pool/llm-d-router.yaml",
                      "longstream_load_turns_running", "longstream_load_turn_running",
                      "longstream_load_turn_running"),
    "alert_matcher": ("labels", PARTS + "monitoring/alerts.yaml", 'outcome=~"kept|unanswered"',
                      'outcomes=~"kept|unanswered"', "outcomes"),
    "alert_group": ("labels", PARTS + "monitoring/alerts.yaml", "sum by (namespace, code)",
                    "sum by (namespace, reason)", "reason"),
    "alert_text": ("labels", PARTS + "monitoring/alerts.yaml", "$labels.pair", "$labels.models", "models"),
    "dashboard_label": ("labels", PARTS + "monitoring/dashboard.json", "sum by (alias, arm)",
                        "sum by (alias, arms)", "arms"),
    "dashboard_value": ("values of labels", PARTS + "monitoring/dashboard.json", 'port=\\"grpc', 'port=\\"grcp',
                        'no longstream_connections has port="grcp"'),
    "alert_value": ("values of labels", PARTS + "monitoring/alerts.yaml", 'kept|unanswered', 'kept|unaswered',
                    'no longstream_handovers_total has outcome="unaswered"'),
    "alert_method": ("values of labels", PARTS + "monitoring/alerts.yaml", 'method="Generate"', 'method="Generat"',
                     'method="Generat"'),
    "bucket": ("values of labels", PARTS + "monitoring/alerts.yaml", 'le=~"0.1"', 'le=~"0.2"', 'le="0.2"'),
    "test_bound": ("values of labels", PARTS + "monitoring/alerts_store_test.yaml", 'le="0.5"', 'le="0.4"',
                   'no longstream_store_commit_seconds_bucket has le="0.4"'),
    "adapter_label": ("labels", PARTS + "hpa/prometheus-adapter.yaml", 'pod!=""', 'pods!=""', "pods"),
    "keda_label": ("labels", PARTS + "keda/scaled-object.yaml", "namespace=", "name_space=", "name_space"),
    "alert_untested": ("tests of alerts", PARTS + "monitoring/alerts.yaml", "alert: LongstreamStoreSlow",
                       "alert: LongstreamStoreSlower", "LongstreamStoreSlower is not both"),
    "healthy_series": ("tests of alerts", PARTS + "monitoring/alerts_healthy_test.yaml", "longstream_sessions_lost_total",
                       "longstream_session_lost_total", "LongstreamSessionLost reads longstream_sessions_lost_total"),
    "healthy_label": ("tests of alerts", PARTS + "monitoring/alerts_healthy_test.yaml", 'reason="turn"', 'reason="open"',
                      'LongstreamCacheBytesHigh reads longstream_session_evictions_total{reason="turn"}'),
    "healthy_time": ("tests of alerts", PARTS + "monitoring/alerts_healthy_test.yaml", "values: 80x420", "values: 80x20",
                     "LongstreamSessionBytesHigh reads longstream_session_host_bytes{}"),
    "not_yet": ("tests of alerts", PARTS + "monitoring/alerts_load_test.yaml", "eval_time: 9m", "eval_time: 8m",
                "LongstreamSessionBytesHigh: no test notices that `for`"),
    "burn_arm": ("tests of alerts", PARTS + "monitoring/alerts_objectives_test.yaml",
                 "alertname: LongstreamAvailabilityBurnsFast\n        eval_time: 200m",
                 "alertname: LongstreamAvailabilityBurnsSlowly\n        eval_time: 200m",
                 "LongstreamAvailabilityBurnsFast: no test notices that (longstream:turn_errors:ratio_rate6h"),
    "runbook": ("metrics and runbooks", PARTS + "monitoring/alerts.yaml", "alert: LongstreamStoreSlow",
                "alert: LongstreamStoreSlower", "LongstreamStoreSlower"),
    "dockerfile": ("hadolint", "images/Dockerfile.cpu", "WORKDIR /source", "WORKDIR source", "DL3000"),
    "root_user": ("checkov", "images/Dockerfile.cuda", "USER 10001:10001", "USER root", "CKV_DOCKER_8"),
    "privilege": ("checkov", BASE + "deployment.yaml", "allowPrivilegeEscalation: false",
                  "allowPrivilegeEscalation: true", "CKV_K8S_20"),
    "dashboard_query": ("PromQL", PARTS + "monitoring/dashboard.json", "histogram_quantile(0.5, sum by (",
                        "histogram_quantile(0.5, sum bi (", "bi"),
    "adapter_query": ("PromQL", PARTS + "hpa/prometheus-adapter.yaml", "/ max by", "/ maxx by", "unexpected <by>"),
    "keda_query": ("PromQL", PARTS + "keda/scaled-object.yaml", "avg(longstream", "average(longstream",
                   "average"),
    "expression": ("alerts", PARTS + "monitoring/alerts.yaml", "rate(longstream_store_errors_total[5m])",
                   "rate(longstream_store_errors_total)", "range vector"),
    "threshold": ("alerts", PARTS + "monitoring/alerts.yaml", "0.9\n          for: 10m",
                  "0.99\n          for: 10m", "LongstreamSessionBytesHigh"),
}


def problems_with(name):
    """Plants an error in a copy of deploy/. Returns what its check says then."""
    check, path, old, new, _ = PLANTED[name]
    schemas.VERSIONS = schemas.VERSIONS[-1:]  # one is enough, and faster
    render.OVERLAYS = () if name in FURTHER else (OVERLAYS.get(name, "cpu"),)
    render.FURTHER = (FURTHER[name],) if name in FURTHER else ()
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for linked in ("docs", "service", "proto", "client", "gateway", "models", "build"):
            root.joinpath(linked).symlink_to(REPOSITORY / linked)
        deploy = shutil.copytree(REPOSITORY / "deploy", root / "deploy", symlinks=True)
        text = (deploy / path).read_text(encoding="utf-8")
        if old not in text:
            raise ValueError(f"{name}: {path} has no {old!r}")
        (deploy / path).write_text(text.replace(old, new, 1), encoding="utf-8")
        return kube_check.run(check, deploy)[0]


class KubeCheckTest(unittest.TestCase):
    """A method for each planted error is added below."""

    @classmethod
    def setUpClass(cls):
        """Looks for all errors, some at a time. Helm's library does not survive a fork."""
        context = multiprocessing.get_context("spawn")
        with concurrent.futures.ProcessPoolExecutor(mp_context=context) as pool:
            cls.found = dict(zip(PLANTED, pool.map(problems_with, PLANTED)))


def test_of(name):
    """The method that judges what was found."""
    def test(self):
        said = PLANTED[name][-1]
        self.assertTrue(any(said in problem for problem in self.found[name]), self.found[name])
    return test


for _name in PLANTED:
    setattr(KubeCheckTest, f"test_{_name}", test_of(_name))

class OwnOverlay(unittest.TestCase):
    """`kube_check.py --overlay DIR` judges an overlay of somebody else."""

    def problems(self, old, new):
        """Returns (exit code, output) for a copy of the example in which `old` is replaced."""
        with tempfile.TemporaryDirectory() as folder:
            own = shutil.copytree(REPOSITORY / "deploy" / EXAMPLE, pathlib.Path(folder, "own"))
            for path in own.iterdir():
                text = path.read_text(encoding="utf-8").replace(old, new)
                for part in ("../gpu", "../../components/alerts", "../../components/http"):
                    target = (REPOSITORY / "deploy" / EXAMPLE / part).resolve()
                    text = text.replace(f"- {part}\n", f"- {os.path.relpath(target, own.resolve())}\n")
                path.write_text(text, encoding="utf-8")
            run = subprocess.run([sys.executable, "-B", REPOSITORY / "deploy/check/kube_check.py", "--overlay", own],
                                 capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr

    def test_good(self):
        """The example has no problems, elsewhere too."""
        code, output = self.problems("", "")
        self.assertEqual(code, 0, output)

    def test_grace(self):
        """Another grace without another terminationGracePeriodSeconds is found."""
        code, output = self.problems("grace: 120s", "grace: 300s")
        self.assertEqual(code, 1, output)
        self.assertIn("make 355", output)


class AllParts(unittest.TestCase):
    """The parts of `make kube-check` are judged together."""

    def test_parts_that_are_not_run(self):
        rows = [("one", 0, 1), ("two", run_all.NOT_RUN, 0)]
        code, lines = run_all.judge(rows, False, 120)
        self.assertEqual(code, 0)
        self.assertRegex(lines[1], r"^two +0 s  not run$")
        code, lines = run_all.judge(rows, True, 120)
        self.assertEqual(code, 1)
        self.assertRegex(lines[1], r"^two +0 s  not run \(a failure here\)$")

    def test_parts_that_fail(self):
        code, lines = run_all.judge([("one", 1, 1), ("two", 0, 1)], False, 120)
        self.assertEqual(code, 1)
        self.assertRegex(lines[0], "failed$")

    def test_time(self):
        rows = [("one", 0, 100), ("two", 0, 30)]
        code, lines = run_all.judge(rows, False, 120)
        self.assertEqual((code, lines[-1]), (0, "WARNING: kube-check took 130 s, more than 120 s"))
        self.assertNotIn("WARNING", "".join(run_all.judge(rows, False, 140)[1]))


if __name__ == "__main__":
    unittest.main()
