{{- define "keyrail.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ .Chart.Name }}{{ end -}}
{{- end }}

{{- define "keyrail.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "keyrail.upstream" -}}
{{ .Values.upstream }}{{ if .Values.passwordSecret.name }}{{ if contains "?" .Values.upstream }}&{{ else }}?{{ end }}password_file=/run/secrets/redis/{{ .Values.passwordSecret.key }}{{ end }}
{{- end }}

{{- /* The config file of `keyrail serve`. */ -}}
{{- define "keyrail.config" -}}
{{- $own := dict "listen" "redis://0.0.0.0:6380" "admin" "0.0.0.0:9121" "upstream" (include "keyrail.upstream" .) -}}
{{- $_ := set $own "policy" (ternary "/etc/keyrail/policy.yaml" .Values.policy (ne .Values.policyText "")) -}}
{{- if .Values.tokenSecret.name }}{{ $_ := set $own "admin_token_file" (printf "/run/secrets/admin/%s" .Values.tokenSecret.key) }}{{ end -}}
{{- toYaml (merge $own .Values.options) }}
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
  args: [serve, --config, /etc/keyrail/keyrail.yaml]
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
    - {name: keyrail-config, mountPath: /etc/keyrail, readOnly: true}
    {{- if .Values.passwordSecret.name }}
    - {name: keyrail-password, mountPath: /run/secrets/redis, readOnly: true}
    {{- end }}
    {{- if .Values.tokenSecret.name }}
    - {name: keyrail-token, mountPath: /run/secrets/admin, readOnly: true}
    {{- end }}
{{- end }}

{{- define "keyrail.volumes" -}}
- name: keyrail-config
  configMap: {name: {{ include "keyrail.name" . }}}
{{- if .Values.passwordSecret.name }}
- name: keyrail-password
  secret: {secretName: {{ .Values.passwordSecret.name }}}
{{- end }}
{{- if .Values.tokenSecret.name }}
- name: keyrail-token
  secret: {secretName: {{ .Values.tokenSecret.name }}}
{{- end }}
{{- end }}
