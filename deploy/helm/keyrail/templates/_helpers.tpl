{{- define "keyrail.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "keyrail.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The URL of Redis, with the files that are mounted for it. */ -}}
{{- define "keyrail.upstream" -}}
{{- $query := list -}}
{{- with .Values.passwordSecret }}{{ if .name }}{{ $query = append $query (printf "password_file=/run/secrets/redis/%s" .key) }}{{ end }}{{ end -}}
{{- with .Values.upstreamTLS -}}
{{- if and (or .caSecret.name .certificateSecret) (not (hasPrefix "rediss" $.Values.upstream)) }}{{ fail "upstreamTLS needs an upstream that begins with rediss" }}{{ end -}}
{{- with .caSecret }}{{ if .name }}{{ $query = append $query (printf "ssl_ca_certs=/run/secrets/redis-ca/%s" .key) }}{{ end }}{{ end -}}
{{- if .certificateSecret }}{{ $query = append $query "ssl_certfile=/run/secrets/redis-tls/tls.crt&ssl_keyfile=/run/secrets/redis-tls/tls.key" }}{{ end -}}
{{- end -}}
{{ .Values.upstream }}{{ if $query }}{{ ternary "&" "?" (contains "?" .Values.upstream) }}{{ join "&" $query }}{{ end }}
{{- end }}

{{- define "keyrail.listen" -}}
{{- $ca := .Values.tls.clientCASecret -}}
{{- if .Values.tls.secretName -}}
rediss://0.0.0.0:6380?certificate=/run/secrets/tls/tls.crt&key=/run/secrets/tls/tls.key{{ if $ca.name }}&client_ca=/run/secrets/client-ca/{{ $ca.key }}{{ end }}
{{- else -}}
{{- if $ca.name }}{{ fail "tls.clientCASecret needs tls.secretName" }}{{ end -}}
redis://0.0.0.0:6380
{{- end -}}
{{- end }}

{{- /* The config file of `keyrail serve`. */ -}}
{{- define "keyrail.config" -}}
{{- $own := dict "listen" (include "keyrail.listen" .) "admin" "0.0.0.0:9121" "upstream" (include "keyrail.upstream" .) -}}
{{- $_ := set $own "policy" (ternary "/etc/keyrail/policy.yaml" .Values.policy (ne .Values.policyText "")) -}}
{{- if .Values.tokenSecret.name }}{{ $_ := set $own "admin_token_file" (printf "/run/secrets/admin/%s" .Values.tokenSecret.key) }}{{ end -}}
{{- if ne .Values.clientAuth "none" }}{{ $_ := set $own "client_auth" .Values.clientAuth }}{{ end -}}
{{- if .Values.clientPasswordSecret.name }}{{ $_ := set $own "client_password_file" (printf "/run/secrets/clients/%s" .Values.clientPasswordSecret.key) }}{{ end -}}
{{- if .Values.stateVolume }}{{ $_ := set $own "state_dir" "/var/lib/keyrail" }}{{ $_ := set $own "incidents" "/var/lib/keyrail/incidents.jsonl" }}{{ end -}}
{{- range $name, $_ := .Values.options }}{{ if hasKey $own $name }}{{ fail (printf "options.%s: the chart's own values set it" $name) }}{{ end }}{{ end -}}
{{- toYaml (merge $own .Values.options) }}
{{- end }}

{{- /* What is mounted: the name of each volume, what it is made of, and where. */ -}}
{{- define "keyrail.mounts" -}}
- {name: keyrail-config, path: /etc/keyrail, source: {configMap: {name: {{ include "keyrail.name" . }}}}}
{{- with .Values.passwordSecret.name }}
- {name: keyrail-password, path: /run/secrets/redis, source: {secret: {secretName: {{ . }}}}}
{{- end }}
{{- with .Values.upstreamTLS.caSecret.name }}
- {name: keyrail-upstream-ca, path: /run/secrets/redis-ca, source: {secret: {secretName: {{ . }}}}}
{{- end }}
{{- with .Values.upstreamTLS.certificateSecret }}
- {name: keyrail-upstream-tls, path: /run/secrets/redis-tls, source: {secret: {secretName: {{ . }}}}}
{{- end }}
{{- with .Values.clientPasswordSecret.name }}
- {name: keyrail-clients, path: /run/secrets/clients, source: {secret: {secretName: {{ . }}}}}
{{- end }}
{{- with .Values.tls.secretName }}
- {name: keyrail-tls, path: /run/secrets/tls, source: {secret: {secretName: {{ . }}}}}
{{- end }}
{{- with .Values.tls.clientCASecret.name }}
- {name: keyrail-client-ca, path: /run/secrets/client-ca, source: {secret: {secretName: {{ . }}}}}
{{- end }}
{{- with .Values.tokenSecret.name }}
- {name: keyrail-token, path: /run/secrets/admin, source: {secret: {secretName: {{ . }}}}}
{{- end }}
{{- end }}

{{- /*
The container, for this chart's Deployment or as a sidecar in a chart that depends on this one:

    containers:
      - name: app
        env: [{name: REDIS_URL, value: "redis://127.0.0.1:6380"}]
      {{- include "keyrail.container" .Subcharts.keyrail | nindent 6 }}
    volumes:
      {{- include "keyrail.volumes" .Subcharts.keyrail | nindent 6 }}
*/ -}}
{{- define "keyrail.container" -}}
- name: keyrail
  image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: {{- toYaml (concat (list "serve" "--config" "/etc/keyrail/keyrail.yaml") .Values.extraArgs) | nindent 4 }}
  {{- with .Values.extraEnv }}
  env: {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: redis, containerPort: 6380}
    - {name: admin, containerPort: 9121}
  # Alive, not ready: a pod must not be restarted because the Redis behind it is down.
  livenessProbe:
    httpGet: {path: /healthz, port: admin}
  readinessProbe:
    httpGet: {path: /readyz, port: admin}
    periodSeconds: 2
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  resources: {{- toYaml .Values.resources | nindent 4 }}
  volumeMounts:
    {{- range include "keyrail.mounts" . | fromYamlArray }}
    - {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
    {{- end }}
    {{- if .Values.stateVolume }}
    - {name: keyrail-state, mountPath: /var/lib/keyrail}
    {{- end }}
    {{- with .Values.extraVolumeMounts }}{{ toYaml . | nindent 4 }}{{ end }}
{{- end }}

{{- define "keyrail.volumes" -}}
{{- range include "keyrail.mounts" . | fromYamlArray }}
- {{ merge (dict "name" .name) .source | toYaml | nindent 2 | trim }}
{{- end }}
{{- with .Values.stateVolume }}
- {{ merge (dict "name" "keyrail-state") . | toYaml | nindent 2 | trim }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
