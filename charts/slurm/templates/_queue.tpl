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
