{{- /*
The rules of the ValidatingAdmissionPolicy in policy.yaml. A feature is a dictionary:
  writes:      what it needs, such as "UPDATE pods/status"; what no feature writes is refused
  validations: a list of {write, expression, message}; all of one write must hold
An expression has the variables of policy.yaml. A message says what is allowed.
*/}}
{{- define "slurmlet.policy.features" -}}
{{- $names := list "authority" }}
{{- if include "slurmlet.webhooks" . }}{{ $names = append $names "inject" }}{{ end }}
{{- if .Values.scaleIn.enabled }}{{ $names = append $names "scaleIn" }}{{ end }}
{{- if .Values.configMaps }}{{ $names = append $names "refresh" }}{{ end }}
{{- if ne .Values.machines.cordon "off" }}{{ $names = append $names "cordon" }}{{ end }}
{{- if .Values.elastic.enabled }}{{ $names = append $names "elastic" }}{{ end }}
{{- if or .Values.rolling.enabled .Values.elastic.enabled }}{{ $names = append $names "deletions" }}{{ end }}
{{- if .Values.bridge.enabled }}{{ $names = append $names "bridge" }}{{ end }}
{{- $all := list }}
{{- range $names }}
{{- $feature := include (printf "slurmlet.policy.%s" .) $ | fromYaml }}
{{- with $feature.Error }}{{ fail . }}{{ end }}
{{- $all = append $all $feature }}
{{- end }}
{{- toYaml $all }}
{{- end }}

{{- /* A name of its own: those of the webhook have one dot, because neither a full name nor a namespace has one. */}}
{{- define "slurmlet.policy" -}}
{{ printf "controller.%s" (include "slurmlet.webhook" .) }}
{{- end }}

{{- /* A list of texts in CEL. */}}
{{- define "slurmlet.cel.list" -}}
[{{ range $i, $text := . }}{{ if $i }}, {{ end }}'{{ $text }}'{{ end }}]
{{- end }}

{{- /* (variable, field): a map of an object's metadata, empty where there is none. */}}
{{- define "slurmlet.cel.metadata" -}}
{{- $field := printf "variables.%s.metadata.%s" (first .) (last .) }}
{{- printf "has(variables.%s.metadata) && has(%s) ? %s : {}" (first .) $field $field }}
{{- end }}

{{- /* (now, was, fields): two maps are the same but for some of their fields. */}}
{{- define "slurmlet.cel.same" -}}
{{- $now := index . 0 }}{{ $was := index . 1 }}
{{- $but := "" }}{{ with index . 2 }}{{ $but = printf "k in %s || " (include "slurmlet.cel.list" .) }}{{ end -}}
{{ $now }}.all(k, {{ $but }}k in {{ $was }} && {{ $now }}[k] == {{ $was }}[k]) && {{ $was }}.all(k, {{ $but }}k in {{ $now }})
{{- end }}

{{- /* (fields): nothing of the object differs but metadata, of which slurmlet.cel.meta judges, and these fields. */}}
{{- define "slurmlet.cel.object" -}}
{{ include "slurmlet.cel.same" (list "variables.now" "variables.was" (concat (list "apiVersion" "kind" "metadata") .)) }}
{{- end }}

{{- /* (labels, annotations): nothing of the metadata differs but these. */}}
{{- define "slurmlet.cel.meta" -}}
{{- join " && " (list
  "variables.sameMetadata"
  (include "slurmlet.cel.same" (list "variables.labels" "variables.labelsBefore" (index . 0)))
  (include "slurmlet.cel.same" (list "variables.annotations" "variables.annotationsBefore" (index . 1)))
) }}
{{- end }}

{{- /* The certificate authority. A Secret of another type would have Kubernetes put another account's token into it. */}}
{{- define "slurmlet.policy.authority" -}}
{{- $made := "variables.labels.all(k, k == 'app.kubernetes.io/managed-by') && size(variables.annotations) == 0 && !has(variables.now.metadata.ownerReferences) && !has(variables.now.metadata.finalizers)" }}
writes: [CREATE secrets, UPDATE secrets, CREATE configmaps, UPDATE configmaps]
validations:
  - write: CREATE secrets
    expression: >-
      variables.now.metadata.name == 'slurmlet-ca' && variables.now.type == 'Opaque' && {{ $made }}
    message: slurmlet's controller may create the Secret slurmlet-ca of the type Opaque alone, without annotations
  - write: UPDATE secrets
    expression: >-
      variables.now.metadata.name == 'slurmlet-ca' && {{ include "slurmlet.cel.object" (list "data") }}
      && {{ include "slurmlet.cel.meta" (list (list) (list)) }}
    message: slurmlet's controller may change the data of the Secret slurmlet-ca alone
  - write: CREATE configmaps
    expression: >-
      variables.now.metadata.name == 'slurmlet-ca' && {{ $made }}
      && has(variables.now.data) && variables.now.data.all(k, k == 'ca.crt') && !has(variables.now.binaryData)
    message: slurmlet's controller may create the ConfigMap slurmlet-ca with the key ca.crt alone, without annotations
  - write: UPDATE configmaps
    expression: >-
      variables.now.metadata.name == 'slurmlet-ca' && {{ include "slurmlet.cel.object" (list "data") }}
      && {{ include "slurmlet.cel.meta" (list (list "app.kubernetes.io/managed-by") (list)) }}
      && has(variables.now.data) && variables.now.data.all(k, k == 'ca.crt' || has(variables.was.data) && k in variables.was.data && variables.now.data[k] == variables.was.data[k])
      && (!has(variables.was.data) || variables.was.data.all(k, k in variables.now.data))
    message: slurmlet's controller may change the key ca.crt and the label app.kubernetes.io/managed-by of the ConfigMap slurmlet-ca alone
{{- end }}

{{- define "slurmlet.policy.inject" -}}
writes: [UPDATE mutatingwebhookconfigurations]
validations:
  - write: UPDATE mutatingwebhookconfigurations
    expression: >-
      {{ include "slurmlet.cel.object" (list "webhooks") }} && {{ include "slurmlet.cel.meta" (list (list) (list)) }}
      && has(variables.now.webhooks) && has(variables.was.webhooks) && size(variables.now.webhooks) == size(variables.was.webhooks)
      && variables.now.webhooks.all(w, variables.was.webhooks.exists(o,
      {{ include "slurmlet.cel.same" (list "w" "o" (list "clientConfig")) }}
      && {{ include "slurmlet.cel.same" (list "w.clientConfig" "o.clientConfig" (list "caBundle")) }}))
    message: slurmlet's controller may change caBundle alone in its MutatingWebhookConfiguration
{{- end }}

{{- define "slurmlet.policy.scaleIn" -}}
{{- $annotations := list "controller.kubernetes.io/pod-deletion-cost" }}
{{- if .Values.scaleIn.safeToEvict }}{{ $annotations = append $annotations "cluster-autoscaler.kubernetes.io/safe-to-evict" }}{{ end }}
writes: [UPDATE pods/status]
validations:
  - write: UPDATE pods/status
    expression: variables.isNode
    message: slurmlet's controller may mark pods alone that have the labels slurmlet.dev/cluster and slurmlet.dev/role=slurmd
  - write: UPDATE pods/status
    expression: {{ include "slurmlet.cel.meta" (list (list) $annotations) | quote }}
    message: {{ printf "slurmlet's controller may change these annotations of a pod alone, and no labels: %s" (join ", " $annotations) | quote }}
  - write: UPDATE pods/status
    expression: >-
      variables.annotations.all(k, !(k in {{ include "slurmlet.cel.list" $annotations }})
      || k in variables.annotationsBefore && variables.annotations[k] == variables.annotationsBefore[k]
      || variables.annotations[k] in ['-100', '0', '100', 'true', 'false'])
    message: slurmlet's controller may write -100, 0, 100, true and false alone into a pod's annotations
  - write: UPDATE pods/status
    expression: >-
      {{ include "slurmlet.cel.object" (list "status") }}
      && {{ include "slurmlet.cel.same" (list "variables.now.status" "variables.was.status" (list "conditions")) }}
      && (has(variables.now.status.conditions) ? variables.now.status.conditions.filter(c, !c.type.startsWith('slurmlet.dev/')) : [])
      == (has(variables.was.status.conditions) ? variables.was.status.conditions.filter(c, !c.type.startsWith('slurmlet.dev/')) : [])
    message: slurmlet's controller may change the conditions slurmlet.dev/* alone in a pod's status
{{- end }}

{{- /* The annotation by which the kubelet delivers a ConfigMap to slurmctld's pod. */}}
{{- define "slurmlet.policy.refresh" -}}
{{- $annotation := "slurmlet.dev/config-version" }}
{{- $namespaces := list }}
{{- range .Values.configMaps }}{{ $namespaces = append $namespaces (splitList "/" . | first) | uniq }}{{ end }}
writes: [UPDATE pods/status of slurmctld]
validations:
  - write: UPDATE pods/status of slurmctld
    expression: {{ printf "request.namespace in %s" (include "slurmlet.cel.list" $namespaces) | quote }}
    message: {{ printf "slurmlet's controller may change pods of slurmctld in these namespaces alone (configMaps of its chart): %s" (join ", " $namespaces) | quote }}
  - write: UPDATE pods/status of slurmctld
    expression: >-
      {{ include "slurmlet.cel.object" (list) }} && {{ include "slurmlet.cel.meta" (list (list) (list $annotation)) }}
      && (!('{{ $annotation }}' in variables.annotations) || string(variables.annotations['{{ $annotation }}']).matches('^[0-9-]{1,32}$'))
    message: slurmlet's controller may write a resourceVersion alone into a pod of slurmctld, as the annotation {{ $annotation }}
{{- end }}

{{- define "slurmlet.policy.cordon" -}}
{{- $mark := "slurmlet.dev/drained-by-slurm" }}
{{- $nodes := "slurmlet.dev/drained-nodes" }}
{{- $taint := "slurmlet.dev/drained" }}
writes: [UPDATE nodes]
validations:
  - write: UPDATE nodes
    expression: >-
      {{ include "slurmlet.cel.object" (list "spec") }} && {{ include "slurmlet.cel.meta" (list (list) (list $mark $nodes)) }}
    message: slurmlet's controller may change of a Node the annotations {{ $mark }} and {{ $nodes }}, spec.unschedulable and the taint {{ $taint }} alone
  - write: UPDATE nodes
    expression: >-
      {{ include "slurmlet.cel.same" (list "variables.now.spec" "variables.was.spec" (list "unschedulable" "taints")) }}
      && (has(variables.now.spec.taints) ? variables.now.spec.taints.filter(t, t.key != '{{ $taint }}') : [])
      == (has(variables.was.spec.taints) ? variables.was.spec.taints.filter(t, t.key != '{{ $taint }}') : [])
    message: slurmlet's controller may change of a Node's spec unschedulable and the taint {{ $taint }} alone
  - write: UPDATE nodes
    expression: >-
      (has(variables.now.spec.unschedulable) && variables.now.spec.unschedulable) == (has(variables.was.spec.unschedulable) && variables.was.spec.unschedulable)
      || '{{ $mark }}' in (has(variables.now.spec.unschedulable) && variables.now.spec.unschedulable ? variables.annotations : variables.annotationsBefore)
    message: slurmlet's controller may cordon a Node with the annotation {{ $mark }} alone, and uncordon one alone that has it
{{- end }}

{{- /* Pods of elastic sets: those of Pod Security's baseline, and what values allow. */}}
{{- define "slurmlet.policy.elastic" -}}
{{- $namespaces := include "slurmlet.elasticNamespaces" . | fromJsonArray }}
{{- $accounts := concat (list "default") .Values.elastic.serviceAccounts | uniq }}
{{- $capabilities := concat (splitList " " "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT") .Values.elastic.capabilities | uniq }}
{{- $closed := list "kube-system" "kube-public" "kube-node-lease" .Release.Namespace | uniq }}
{{- $paths := .Values.elastic.hostPaths }}
writes: [CREATE pods]
validations:
  - write: CREATE pods
    expression: variables.isNode && 'slurmlet.dev/elastic' in variables.labels
    message: slurmlet's controller may create pods alone that have the labels slurmlet.dev/cluster, slurmlet.dev/elastic and slurmlet.dev/role=slurmd
  - write: CREATE pods
    {{- if $namespaces }}
    expression: {{ printf "request.namespace in %s" (include "slurmlet.cel.list" $namespaces) | quote }}
    message: {{ printf "slurmlet's controller may create pods in these namespaces alone (elastic.namespaces of its chart): %s" (join ", " $namespaces) | quote }}
    {{- else }}
    expression: {{ printf "!(request.namespace in %s)" (include "slurmlet.cel.list" $closed) | quote }}
    message: {{ printf "slurmlet's controller may create no pods in these namespaces: %s" (join ", " $closed) | quote }}
    {{- end }}
  - write: CREATE pods
    expression: >-
      has(variables.now.spec.serviceAccountName) && (variables.now.spec.serviceAccountName in {{ include "slurmlet.cel.list" $accounts }}
      || variables.now.spec.serviceAccountName == variables.labels['slurmlet.dev/cluster'] + '-slurmd')
    message: {{ printf "slurmlet's controller may create pods with these service accounts alone (elastic.serviceAccounts of its chart): %s, and <cluster>-slurmd" (join ", " $accounts) | quote }}
  - write: CREATE pods
    expression: >-
      !(has(variables.now.spec.hostNetwork) && variables.now.spec.hostNetwork || has(variables.now.spec.hostPID) && variables.now.spec.hostPID
      || has(variables.now.spec.hostIPC) && variables.now.spec.hostIPC || has(variables.now.spec.nodeName) && variables.now.spec.nodeName != '')
    message: slurmlet's controller may create pods alone without the machine's namespaces (hostNetwork, hostPID, hostIPC) and without nodeName
  - write: CREATE pods
    expression: >-
      !has(variables.now.spec.volumes) || variables.now.spec.volumes.all(v, !has(v.hostPath)
      || v.hostPath.path in {{ include "slurmlet.cel.list" $paths }})
    message: {{ printf "slurmlet's controller may create pods alone without hostPath, but for those that elastic.hostPaths of its chart names: %s" (join ", " $paths | default "none") | quote }}
  - write: CREATE pods
    expression: >-
      (variables.now.spec.containers + (has(variables.now.spec.initContainers) ? variables.now.spec.initContainers : [])).all(c,
      (!has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))
      && (!has(c.securityContext) || !(has(c.securityContext.privileged) && c.securityContext.privileged)
      && (!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default')
      && (!has(c.securityContext.windowsOptions) || !has(c.securityContext.windowsOptions.hostProcess) || !c.securityContext.windowsOptions.hostProcess)))
      && (!has(variables.now.spec.securityContext) || !has(variables.now.spec.securityContext.windowsOptions)
      || !has(variables.now.spec.securityContext.windowsOptions.hostProcess) || !variables.now.spec.securityContext.windowsOptions.hostProcess)
    message: slurmlet's controller may create pods alone whose containers have no privileged, hostPort, hostProcess and other procMount
  - write: CREATE pods
    expression: >-
      (variables.now.spec.containers + (has(variables.now.spec.initContainers) ? variables.now.spec.initContainers : [])).all(c,
      !has(c.securityContext) || !has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add)
      || c.securityContext.capabilities.add.all(one, one in {{ include "slurmlet.cel.list" $capabilities }}))
    message: {{ printf "slurmlet's controller may create pods with these capabilities alone (elastic.capabilities of its chart adds some): %s" (join ", " $capabilities) | quote }}
{{- end }}

{{- /* Pods that go: of old revisions, and of elastic nodes that Slurm wants no more. */}}
{{- define "slurmlet.policy.deletions" -}}
{{- $some := list }}{{ $says := list }}
{{- if .Values.rolling.enabled }}
{{- $some = append $some "has(variables.was.metadata.ownerReferences) && variables.was.metadata.ownerReferences.exists(o, o.kind in ['StatefulSet', 'DaemonSet'] && has(o.controller) && o.controller)" }}
{{- $says = append $says "a StatefulSet or DaemonSet owns" }}
{{- end }}
{{- if .Values.elastic.enabled }}
{{- $some = append $some "'slurmlet.dev/elastic' in variables.labelsBefore" }}
{{- $says = append $says "have the label slurmlet.dev/elastic" }}
{{- end }}
writes: [DELETE pods]
validations:
  - write: DELETE pods
    expression: {{ printf "variables.isNode && (%s)" (join " || " $some) | quote }}
    message: {{ printf "slurmlet's controller may delete pods alone that have the labels slurmlet.dev/cluster and slurmlet.dev/role=slurmd, and that %s" (join " or " $says) | quote }}
  - write: DELETE pods
    # The API server has put the pod's own period, or 0 for a pod that does not run, where the request has none.
    expression: >-
      !has(request.options) || !has(request.options.gracePeriodSeconds)
      || request.options.gracePeriodSeconds >= variables.was.spec.terminationGracePeriodSeconds
      || !has(variables.was.spec.nodeName) || variables.was.spec.nodeName == '' || variables.was.status.phase in ['Failed', 'Succeeded']
    message: slurmlet's controller may delete pods alone with their own grace period, in which jobs end
{{- end }}

{{- /* Pods in Slurm's queue. A namespace's label and the API server have put the label on them, and nobody changes it. */}}
{{- define "slurmlet.policy.bridge" -}}
{{- $labels := list "slurmlet.dev/job" "scheduler.slinky.slurm.net/slurm-jobid" }}
{{- $annotations := list "slurmlet.dev/job-run" "slurmlet.dev/group" "slurmlet.dev/slurm-node" "slinky.slurm.net/slurm-node" }}
{{- $gates := "(has(variables.%s.spec.schedulingGates) ? variables.%s.spec.schedulingGates : [])" }}
{{- $gatesNow := printf $gates "now" "now" }}{{ $gatesBefore := printf $gates "was" "was" }}
{{- $conditions := "(has(variables.%s.status.conditions) ? variables.%s.status.conditions.filter(c, c.type != 'DisruptionTarget') : [])" }}
writes: [UPDATE pods in the queue, UPDATE pods/status in the queue, DELETE pods in the queue]
validations:
  - write: UPDATE pods in the queue
    expression: >-
      {{ include "slurmlet.cel.object" (list "spec") }} && {{ include "slurmlet.cel.meta" (list $labels $annotations) }}
      && {{ include "slurmlet.cel.same" (list "variables.now.spec" "variables.was.spec" (list "schedulingGates" "affinity" "tolerations")) }}
    message: {{ printf "slurmlet's controller may change of a pod in Slurm's queue its gate, affinity and tolerations alone, and these labels and annotations: %s" (join ", " (concat $labels $annotations)) | quote }}
  - write: UPDATE pods in the queue
    expression: >-
      {{ $gatesBefore }}.exists(g, g.name == 'slurmlet.dev/slurm')
      && {{ $gatesNow }} == {{ $gatesBefore }}.filter(g, g.name != 'slurmlet.dev/slurm')
    message: slurmlet's controller may change a pod in Slurm's queue once, when it takes the gate slurmlet.dev/slurm away
  - write: UPDATE pods/status in the queue
    expression: >-
      {{ include "slurmlet.cel.object" (list "status") }} && {{ include "slurmlet.cel.meta" (list (list) (list)) }}
      && {{ include "slurmlet.cel.same" (list "variables.now.status" "variables.was.status" (list "conditions")) }}
      && {{ printf $conditions "now" "now" }} == {{ printf $conditions "was" "was" }}
    message: slurmlet's controller may change the condition DisruptionTarget alone of a pod in Slurm's queue
  - write: DELETE pods in the queue
    expression: >-
      'slurmlet.dev/job' in variables.labelsBefore && !{{ $gatesBefore }}.exists(g, g.name == 'slurmlet.dev/slurm')
      && (!has(request.options) || !has(request.options.gracePeriodSeconds)
      || request.options.gracePeriodSeconds >= variables.was.spec.terminationGracePeriodSeconds
      || !has(variables.was.spec.nodeName) || variables.was.spec.nodeName == '' || variables.was.status.phase in ['Failed', 'Succeeded'])
    message: slurmlet's controller may delete pods in Slurm's queue alone that a Slurm job had put on a node, with their own grace period
{{- end }}
