{{- /* Node sets whose nodes Slurm starts and ends. */}}

{{- /* Whether a node set's values make it one whose pods slurmlet's controller makes: "true", or nothing. */}}
{{- define "slurm.isElastic" -}}
{{ if not (kindIs "invalid" (.elastic | default dict).max) }}true{{ end }}
{{- end }}

{{- /* The elastic sets, each with its values over the defaults. */}}
{{- define "slurm.elasticSets" -}}
{{- $sets := dict }}
{{- range $set, $values := .Values.nodeSets }}
{{- $spec := mergeOverwrite (deepCopy $.Values.podDefaults) (deepCopy $.Values.nodeDefaults) (deepCopy ($values | default dict)) }}
{{- if include "slurm.isElastic" $spec }}
{{- include "slurm.dropNulls" $spec.resources }}
{{- $_ := set $sets $set $spec }}
{{- end }}
{{- end }}
{{- toYaml $sets }}
{{- end }}

{{- /* "true" where slurmctld's agent has a directory of sets: also when the last set is gone, whose records it must delete. */}}
{{- define "slurm.hasElastic" -}}
{{- $name := printf "%s-elastic" (include "slurm.fullname" .) }}
{{- $can := and .Values.peers.address (include "slurm.ownController" .) }}
{{ if or (include "slurm.elasticSets" . | fromYaml) (and $can (lookup "v1" "ConfigMap" .Release.Namespace $name)) }}true{{ end }}
{{- end }}

{{- /* What slurmctld's agent makes the set's records of. */}}
{{- define "slurm.elasticSet" -}}
{{- $limits := .spec.resources.limits }}
{{- $last := sub (int64 .spec.elastic.max) 1 }}
{{- $nodes := printf "%s-%s-%s" (include "slurm.fullname" .root) .set (ternary (printf "[0-%d]" $last) "0" (gt $last 0)) }}
{{- $weight := ternary "" (.spec.weight | default 0 | int64 | toString) (kindIs "invalid" .spec.weight) }}
{{- $gres := include "slurm.gres" .spec }}
{{- $features := prepend .spec.features .set }}
{{- if .root.Values.jobContainers.enabled }}{{ $features = append $features "containers" }}{{ end }}
{{- dict
  "nodes" $nodes
  "min" (int64 .spec.elastic.min)
  "idleSeconds" (int64 .spec.elastic.idleSeconds)
  "cpuLimit" (include "slurm.scalar" $limits.cpu)
  "memoryLimit" (include "slurm.scalar" $limits.memory)
  "storageLimit" (include "slurm.scalar" (index $limits "ephemeral-storage" | default ""))
  "memoryReserve" .spec.reserveMemory
  "gres" (ternary "" $gres (eq $gres "none"))
  "features" (uniq $features)
  "weight" $weight
  "topology" .spec.topology
| toJson }}
{{- end }}

{{- define "slurm.elasticTemplate" -}}
{{- $own := dict "slurmlet.dev/cluster" (include "slurm.fullname" .root) "slurmlet.dev/elastic" .set }}
{{- $pod := include "slurm.podTemplate" . | fromYaml }}
{{- /* With the host name that the controller gives it, DNS knows the pod like one of a StatefulSet's. */}}
{{- $_ := set $pod.spec "subdomain" (include "slurm.fullname" .root) }}
apiVersion: v1
kind: PodTemplate
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- merge $own (include "slurm.labels" . | fromYaml) | toYaml | nindent 4 }}
template: {{- toYaml $pod | nindent 2 }}
{{- end }}

{{- /* slurmctld's agent makes an elastic set's records before there is a pod to look into: auto is none. */}}
{{- define "slurm.gres" -}}
{{ ternary "none" .gres (and (eq .gres "auto") (eq (include "slurm.isElastic" .) "true")) }}
{{- end }}

{{- /* Fails on values that do not go with elastic, and on sets that cannot work. */}}
{{- define "slurm.checkElastic" -}}
{{- $c := .component }}
{{- $spec := $c.spec }}
{{- $e := $spec.elastic }}
{{- $set := printf "nodeSets.%s" $c.set }}
{{- $root := $c.root.Values }}
{{- if not $root.peers.address }}
{{- fail (printf "%s is elastic, and slurmlet's controller makes its pods: install charts/slurmlet with elastic.enabled=true, and set peers.address=slurmlet.slurmlet.svc:443" $set) }}
{{- end }}
{{- if $root.controller.external }}
{{- fail (printf "%s is elastic, and slurmctld's agent makes its nodes: the chart must run slurmctld, and controller.external is %s" $set (join "," $root.controller.external)) }}
{{- end }}
{{- if gt (int64 $e.min) (int64 $e.max) }}
{{- fail (printf "%s.elastic.min is %d, and elastic.max is %d: min may be max at most" $set (int64 $e.min) (int64 $e.max)) }}
{{- end }}
{{- if $spec.autoscaling.enabled }}
{{- fail (printf "%s has elastic and autoscaling.enabled: Slurm starts an elastic set's nodes, and KEDA must not; set one of them" $set) }}
{{- end }}
{{- range $key := list "replicas" "workload" "maxUnavailable" "updates" }}
{{- if not (kindIs "invalid" (index $.values $key)) }}
{{- fail (printf "%s.%s is %v, and the set is elastic: no workload makes its pods; take %s away" $set $key (index $.values $key) $key) }}
{{- end }}
{{- end }}
{{- include "slurm.dropNulls" $spec.resources }}
{{- $limits := ($spec.resources | default dict).limits | default dict }}
{{- range $amount := list "cpu" "memory" }}
{{- if not (get $limits $amount) }}
{{- fail (printf "%s is elastic and has no resources.limits.%s: slurmctld must know a node's size before there is a pod" $set $amount) }}
{{- end }}
{{- end }}
{{- if eq $spec.gres "auto" }}
{{- range $name, $_ := $limits }}
{{- if or (contains "gpu" $name) (hasPrefix "nvidia.com/" $name) (hasPrefix "amd.com/" $name) }}
{{- fail (printf "%s is elastic and has resources.limits.%s with gres: auto: slurmctld must know a node's GPUs before there is a pod; name them, as in gres: gpu:h200:8" $set $name) }}
{{- end }}
{{- end }}
{{- if $spec.resourceClaims }}
{{- fail (printf "%s is elastic and has resourceClaims with gres: auto: slurmctld must know a node's GPUs before there is a pod; name them, as in gres: gpu:h200:8, or set gres: none" $set) }}
{{- end }}
{{- end }}
{{- if not $spec.partition }}
{{- fail (printf "%s is elastic and has no partition, whose line says when idle nodes end: set %s.partition, as in State=UP" $set $set) }}
{{- end }}
{{- if regexMatch `(?i)(^|\s)SuspendTime\s*=` $spec.partition }}
{{- fail (printf "%s.partition has SuspendTime, and the set is elastic: set %s.elastic.idleSeconds" $set $set) }}
{{- end }}
{{- range $feature := $spec.features }}
{{- if and (hasKey $root.nodeSets $feature) (ne $feature $c.set) }}
{{- fail (printf "%s.features has %s, which is a node set: the elastic nodes would be in both sets; rename one of them" $set $feature) }}
{{- end }}
{{- end }}
{{- $budget := $spec.podDisruptionBudget | default dict }}
{{- if or (hasKey $budget "maxUnavailable") (kindIs "string" $budget.minAvailable) }}
{{- fail (printf "%s is elastic and has podDisruptionBudget %s: Kubernetes knows no number of replicas of its pods; use minAvailable with a number, and set other budgets in the sets that are not elastic" $set (toJson $budget)) }}
{{- end }}
{{- $nodes := include "slurm.nodes" $c.root | int }}
{{- if gt $nodes 65536 }}
{{- fail (printf "%s.elastic.max is %d, and all node sets together may have %d nodes: Slurm has 65536 at most" $set (int64 $e.max) $nodes) }}
{{- end }}
{{- end }}
