{{- define "slurmlet.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride }}{{ else if contains $name .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-{{ $name }}{{ end }}
{{- end }}

{{- define "slurmlet.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "slurmlet.fullname" .) }}
{{- end }}

{{- define "slurmlet.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: controller
{{- end }}

{{- define "slurmlet.labels" -}}
{{- merge (include "slurmlet.selector" . | fromYaml) .Values.commonLabels (dict "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service "app.kubernetes.io/part-of" "slurmlet") | toYaml }}
{{- end }}

{{- /* metadata of a namespaced object with the full name. */}}
{{- define "slurmlet.metadata" -}}
name: {{ include "slurmlet.fullname" . }}
namespace: {{ .Release.Namespace }}
labels: {{- include "slurmlet.labels" . | nindent 2 }}
{{- end }}

{{- /* An object without a namespace belongs to all installs, so its name has this one's namespace. */}}
{{- define "slurmlet.clusterName" -}}
{{ printf "%s:%s" .Release.Namespace (include "slurmlet.fullname" .) }}
{{- end }}

{{- /* As clusterName, for objects whose names have no colon. */}}
{{- define "slurmlet.webhook" -}}
{{ printf "%s.%s" (include "slurmlet.fullname" .) .Release.Namespace }}
{{- end }}

{{- /* Which pods the webhook is for, in the API server's words (CEL). */}}
{{- define "slurmlet.podAsks" -}}
has(object.metadata.annotations) && 'slurmlet.dev/inject' in object.metadata.annotations
{{- end }}
