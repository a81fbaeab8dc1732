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

{{- define "slurmlet.bridge" -}}
{{ printf "bridge.%s" (include "slurmlet.webhook" .) }}
{{- end }}

{{- /* The namespaces whose pods may wait in Slurm's queue, as JSON; empty for all. */}}
{{- define "slurmlet.bridgeNamespaces" -}}
{{ .Values.bridge.namespaces | default .Values.namespaces | toJson }}
{{- end }}

{{- /* Of them, those that have the label. */}}
{{- define "slurmlet.bridgeSelector" -}}
matchLabels: {slurmlet.dev/bridge: "true"}
{{- with include "slurmlet.bridgeNamespaces" . | fromJsonArray }}
matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}]
{{- end }}
{{- end }}

{{- /* Whether the webhook has pods wait in Slurm's queue: Kubernetes before 1.36 has no MutatingAdmissionPolicy. */}}
{{- define "slurmlet.queueWebhook" -}}
{{ if and .Values.bridge.enabled (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}true{{ end }}
{{- end }}

{{- /* Whether there is a webhook. */}}
{{- define "slurmlet.webhooks" -}}
{{ if or .Values.inject.enabled (include "slurmlet.queueWebhook" .) }}true{{ end }}
{{- end }}

{{- /* Whom a gate is for: DaemonSets' pods stay as they are, in the API server's words (CEL). */}}
{{- define "slurmlet.bridgeDaemonSet" -}}
(request.userInfo.username in ['system:serviceaccount:kube-system:daemon-set-controller', 'system:kube-controller-manager'] && has(object.metadata.ownerReferences) && object.metadata.ownerReferences.exists(o, o.kind == 'DaemonSet' && has(o.controller) && o.controller))
{{- end }}

{{- /*
A pod that names its node itself has no gate: the API server takes no pod with both. The policy refuses it, but for the mirror pods
of static pods, by which a kubelet says what its machine runs already. NodeRestriction keeps a kubelet to mirror pods of its own
machine. Others may write the annotation, so the user's name counts.
*/}}
{{- define "slurmlet.bridgeNamesNode" -}}
(has(object.spec.nodeName) && object.spec.nodeName != '')
{{- end }}
{{- define "slurmlet.bridgeMirror" -}}
({{ include "slurmlet.bridgeNamesNode" . }} && 'system:nodes' in request.userInfo.groups && request.userInfo.username == 'system:node:' + object.spec.nodeName && has(object.metadata.annotations) && 'kubernetes.io/config.mirror' in object.metadata.annotations)
{{- end }}

{{- /* Which pods the webhook is for, in the API server's words (CEL). */}}
{{- define "slurmlet.podAsks" -}}
has(object.metadata.annotations) && 'slurmlet.dev/inject' in object.metadata.annotations
{{- end }}


{{- /* The namespaces in which pods of elastic sets are made, as JSON; empty for all. */}}
{{- define "slurmlet.elasticNamespaces" -}}
{{ .Values.elastic.namespaces | default .Values.namespaces | toJson }}
{{- end }}

{{- /* Fails where a value names a namespace that may have no clusters. */}}
{{- define "slurmlet.checkNamespaces" -}}
{{- if .Values.namespaces }}
{{- range .Values.elastic.namespaces }}
{{- if not (has . $.Values.namespaces) }}
{{- fail (printf "elastic.namespaces has %s, and namespaces lacks it: name it there too, because clusters may be in those alone" .) }}
{{- end }}
{{- end }}
{{- range .Values.machines.cordonNamespaces }}
{{- if not (has . $.Values.namespaces) }}
{{- fail (printf "machines.cordonNamespaces has %s, and namespaces lacks it: name it there too, because clusters may be in those alone" .) }}
{{- end }}
{{- end }}
{{- range .Values.configMaps }}
{{- if not (has (splitList "/" . | first) $.Values.namespaces) }}
{{- fail (printf "configMaps has %s, and namespaces lacks its namespace: name it there too, because clusters may be in those alone" .) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "slurmlet.registry" -}}
{{- if not .Values.image.registry }}
{{- fail "image.registry is empty: name the registry that has slurmlet's images, as in --set image.registry=registry.example/slurmlet. The README builds them" }}
{{- end }}
{{- .Values.image.registry }}
{{- end }}
