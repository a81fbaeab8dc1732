{{- /* Whether Kubernetes' pods may wait in Slurm's queue: a login set is a gateway. */}}
{{- define "slurm.hasGateway" -}}
{{- $found := "" }}
{{- range $set, $values := include "slurm.loginSets" . | fromYaml }}
{{- if (mergeOverwrite (deepCopy $.Values.login) (deepCopy ($values | default dict))).gateway.enabled }}
{{- $found = "true" }}
{{- end }}
{{- end }}
{{- if and $found (not .Values.peers.address) }}
{{- fail "login.gateway: slurmlet's controller gives the gateway its orders: install charts/slurmlet, and set peers.address=slurmlet.slurmlet.svc:443" }}
{{- end }}
{{- $found }}
{{- end }}

{{- /* Scripts that slurmctld ships to all nodes. They do nothing on a node without slurmlet. */}}
{{- define "slurm.queueFiles" -}}
{{- range $name := list "slurmlet-prolog.sh" "slurmlet-epilog.sh" }}
{{- if hasKey $.Values.slurm.files $name }}
{{- fail (printf "slurm.files has %s, which login.gateway makes: rename it" $name) }}
{{- end }}
{{ $name }}: |
  {{- $.Files.Get (printf "scripts/%s" $name) | trim | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A site's own lines Prolog and Epilog stay, because all of them are run. */}}
{{- define "slurm.queueConf" -}}
Prolog=slurmlet-prolog.sh
Epilog=slurmlet-epilog.sh
{{- end }}

{{- /* Whether pods in Slurm's queue share a set's machines with each other: "true", or nothing. */}}
{{- define "slurm.sharedByPods" -}}
{{ if and (eq .size "node") (eq .sharing "kubernetes") }}true{{ end }}
{{- end }}

{{- /*
Makes a set's values those of slurmds that share their machines with pods in Slurm's queue. Such a pod is small in
Kubernetes' eyes, and the kubelet evicts no pod of the class system-node-critical.
*/}}
{{- define "slurm.shareMachine" -}}
{{- $s := .component.spec }}
{{- $root := .component.root }}
{{- $name := printf "nodeSets.%s" .component.set }}
{{- with .values.workload }}
{{- if ne . "DaemonSet" }}
{{- fail (printf "%s.workload is %s, and size=node has a pod on each machine: leave it out" $name .) }}
{{- end }}
{{- end }}
{{- if include "slurm.isElastic" $s }}
{{- fail (printf "%s has elastic.max and size=node: the nodes of a set are pods that Slurm starts, or machines" $name) }}
{{- end }}
{{- $limits := (.values.resources | default dict).limits | default dict }}
{{- if or $limits.cpu $limits.memory }}
{{- fail (printf "%s.resources has a limit of CPUs or memory, and with size=node the node is what the machine can give, less reserve: leave it out" $name) }}
{{- end }}
{{- if not (include "slurm.hasGateway" $root) }}
{{- fail (printf "%s.size is node, and without login.gateway no node waits for pods in Slurm's queue: set login.gateway.enabled=true" $name) }}
{{- end }}
{{- if and (include "slurm.sharedByPods" $s) (not (include "slurm.ownController" $root)) }}
{{- fail (printf "%s.sharing is kubernetes, and slurm.conf, which must have MCSPlugin=mcs/label, is that of controller.external: use sharing=node" $name) }}
{{- end }}
{{- $r := $s.resources | default dict }}
{{- $limits = omit ($r.limits | default dict) "cpu" "memory" }}
{{- $_ := set $s "resources" (merge (ternary (dict "limits" $limits) dict (gt (len $limits) 0)) (omit $r "limits" "requests")) }}
{{- $_ := set $s.resources "requests" (merge (deepCopy ($r.requests | default dict)) (dict "cpu" "100m" "memory" "256Mi")) }}
{{- $_ := set $s "workload" "DaemonSet" }}
{{- $_ := set $s "priorityClassName" ($s.priorityClassName | default "system-node-critical") }}
{{- $tolerated := false }}
{{- range $s.tolerations }}
{{- $tolerated = or $tolerated (eq (.key | default "") "slurmlet.dev/bridge") }}
{{- end }}
{{- if not $tolerated }}
{{- $_ := set $s "tolerations" (append $s.tolerations (dict "key" "slurmlet.dev/bridge" "operator" "Exists" "effect" "NoSchedule")) }}
{{- end }}
{{- end }}

{{- /* What slurm.conf needs for sets whose machines pods in Slurm's queue share with each other. */}}
{{- define "slurm.sharingConf" -}}
{{- $found := "" }}
{{- range $set, $values := .Values.nodeSets }}
{{- if include "slurm.sharedByPods" (mergeOverwrite (deepCopy $.Values.nodeDefaults) (deepCopy ($values | default dict))) }}
{{- $found = $set }}
{{- end }}
{{- end }}
{{- if $found }}
{{- $plugin := .Values.slurm.conf.MCSPlugin | default "mcs/label" }}
{{- if ne $plugin "mcs/label" }}
{{- fail (printf "slurm.conf.MCSPlugin is %s, and nodeSets.%s.sharing=kubernetes needs mcs/label: leave it out, or use sharing=node" $plugin $found) }}
{{- end }}
{{- if contains "noselect" (.Values.slurm.conf.MCSParameters | default "" | lower) }}
{{- fail (printf "slurm.conf.MCSParameters is %s, and with noselect nodeSets.%s.sharing=kubernetes has jobs beside pods: use ondemandselect" .Values.slurm.conf.MCSParameters $found) }}
{{- end }}
MCSPlugin: mcs/label
{{- end }}
{{- end }}
