{{- /* The labels by which objects select the replicas. */}}
{{- define "longstream.selector" -}}
app.kubernetes.io/name: longstream
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* Metadata of an object. Arguments: the root context, the name. */}}
{{- define "longstream.metadata" -}}
{{- $root := index . 0 -}}
metadata:
  name: {{ index . 1 }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "longstream.selector" $root | nindent 4 }}
{{- end }}

{{- /* How long the kubelet waits from the beginning of preStop to SIGKILL: preStop, the grace time of
running turns, the handovers of sessions, and 15 s for the last writes and connections. */}}
{{- define "longstream.terminationSeconds" -}}
{{- $grace := .Values.server.grace | trimSuffix "s" | int -}}
{{- $drain := .Values.server.drain_timeout | trimSuffix "s" | int -}}
{{- add .Values.preStopSeconds $grace $drain 15 -}}
{{- end }}

{{- /* The file server.yaml. Without a fleet it has no keys of a fleet. */}}
{{- define "longstream.server" -}}
{{- $server := .Values.server -}}
{{- if not .Values.fleet.enabled -}}
{{- $store := omit ($server.store | default dict) "password_file" -}}
{{- $server = merge (dict "store" $store) (omit $server "fleet" "store") -}}
{{- end -}}
{{- toYaml $server -}}
{{- end }}

{{- /* The address of the HTTP listener; empty: there is none. */}}
{{- define "longstream.http" -}}
{{- (.Values.server.http | default dict).listen | default "" -}}
{{- end }}

{{- define "longstream.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end -}}
{{- end -}}
{{- end }}

{{- /* How replicas come and go: at once, but leave one by one, because they hand sessions over. */}}
{{- define "longstream.behavior" -}}
scaleUp:
  stabilizationWindowSeconds: 0
  policies:
    - type: Percent
      value: 100
      periodSeconds: 60
scaleDown:
  stabilizationWindowSeconds: 600
  policies:
    - type: Pods
      value: 1
      periodSeconds: 120
{{- end }}

{{- /* The bound of a histogram, as a pattern: Prometheus 2 calls a second 1, Prometheus 3 calls it 1.0. */}}
{{- define "longstream.bound" -}}
{{- if eq (float64 .) (floor .) }}{{ printf "%v|%v.0" . . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{- /* alerts.yaml with the objectives and the address of the runbooks. */}}
{{- define "longstream.alerts" -}}
{{- $first := .Values.monitoring.objectives.firstToken -}}
{{- $next := .Values.monitoring.objectives.nextToken -}}
{{- .Files.Get "files/alerts.yaml"
  | replace "runbook_url: docs/operations.md#" (printf "runbook_url: %s#" .Values.monitoring.runbooks)
  | replace "first_token_seconds_bucket{le=~\"2.5\"}" (printf "first_token_seconds_bucket{le=~%q}" (include "longstream.bound" $first))
  | replace "token_latency_seconds_bucket{le=~\"0.1\"}" (printf "token_latency_seconds_bucket{le=~%q}" (include "longstream.bound" $next))
  | replace "later than after 2.5 s" (printf "later than after %v s" $first)
  | replace "later than 0.1 s after" (printf "later than %v s after" $next) -}}
{{- end }}

{{- /* Fails if a name is too long: names of Services and labels have at most 63 characters. */}}
{{- define "longstream.checkName" -}}
{{- $longest := sub 63 (len "-endpoint-picker") | int -}}
{{- if gt (len .Release.Name) $longest -}}
{{- fail (printf "the release %s has %d characters; at most %d, because its objects add to the name" .Release.Name (len .Release.Name) $longest) -}}
{{- end -}}
{{- end }}
