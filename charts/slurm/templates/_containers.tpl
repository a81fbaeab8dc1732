{{- /* Jobs in containers: docs/install/job-containers.md. */}}

{{- /* plugstack.conf with the plugin's line before those of slurm.files. */}}
{{- define "slurm.plugstack" -}}
{{- $own := get .Values.slurm.files "plugstack.conf" | default "" }}
{{- if contains "spank_slurmlet.so" $own }}
{{- fail "slurm.files has plugstack.conf with spank_slurmlet.so, and jobContainers.enabled writes that line: take it out of slurm.files" }}
{{- end }}
{{- /* The path is the same in every image and injected pod; Slurm's PluginDir is not */}}
{{- $line := "required /opt/slurmlet/spank_slurmlet.so" }}
{{- range $option, $on := .Values.jobContainers.defaults }}
{{- $line = printf "%s %s=%d" $line (snakecase $option) (ternary 1 0 $on) }}
{{- end }}
{{- with .Values.jobContainers.imageCache }}
{{- $line = printf "%s image_cache=%s" $line . }}
{{- end }}
{{- with .Values.jobContainers.imageDir }}
{{- $line = printf "%s image_dir=%s" $line . }}
{{- end }}
{{- with .Values.jobContainers.privateDirs }}
{{- $line = printf "%s private_dirs=%s" $line (join "," .) }}
{{- end }}
{{- if .Values.jobContainers.privateProcesses }}
{{- $line = printf "%s private_processes=1" $line }}
{{- end }}
{{- printf "%s\n%s" $line $own }}
{{- end }}

{{- /* oci.conf with which Slurm runs the bundles of --container. The first three lines are what slurmlet-container asks for. */}}
{{- define "slurm.ociConf" -}}
IgnoreFileConfigJson=true
CreateEnvFile=null
ContainerPath=/var/lib/slurmlet/containers/oci/%j.%s/%t
RunTimeEnvExclude=.
RunTimeRun="PATH=/opt/slurmlet:/usr/local/bin; exec slurmlet-container oci run --bundle='%b' --environment=%e --step=%s"
{{- end }}

{{- /* Whether jobs have directories or processes of their own: "true", or nothing. It takes the chart's context. */}}
{{- define "slurm.privateJobs" -}}
{{ with .Values.jobContainers }}{{ if and .enabled (or .privateDirs .privateProcesses) }}true{{ end }}{{ end }}
{{- end }}

{{- /* Whether slurm.conf has a plugin of Slurm's own give jobs namespaces: "true", or nothing. It takes the chart's context. */}}
{{- define "slurm.jobContainerType" -}}
{{- range list "JobContainerType" "NamespaceType" }}
{{- with get $.Values.slurm.conf . }}{{ if not (contains "none" .) }}true{{ end }}{{ end }}
{{- end }}
{{- end }}

{{- /* Whether a pod runs jobs in containers: "true", or nothing. */}}
{{- define "slurm.contains" -}}
{{ if and (eq .role "slurmd") .root.Values.jobContainers.enabled }}true{{ end }}
{{- end }}

{{- /* A user's process must be able to make namespaces of users and to mount in them, or each container fails. */}}
{{- define "slurm.checkContainers" -}}
{{- if include "slurm.contains" . }}
{{- $c := .root.Values.jobContainers }}
{{- if hasKey .root.Values.nodeSets "containers" }}
{{- fail "nodeSets.containers has the name of the feature of each node that can make jobs' containers, so all nodes would be in that set: rename it, or take jobContainers.enabled away" }}
{{- end }}
{{- $own := or .spec.securityContext.seccompProfile .spec.podSecurityContext.seccompProfile }}
{{- if and $c.seccompProfile (include "slurm.remounts" .) }}
{{- fail "jobContainers.seccompProfile is for nodes without CAP_SYS_ADMIN: with cgroup.access=capability the runtime's own profile allows what containers need; leave it out" }}
{{- end }}
{{- if and (or $c.privateDirs $c.privateProcesses) (eq (include "slurm.jobContainerType" .root) "true") }}
{{- fail "slurm.conf has JobContainerType or NamespaceType, and jobContainers.privateDirs or privateProcesses gives jobs the same: leave one of both out" }}
{{- end }}
{{- if and $c.privateProcesses (not (include "slurm.remounts" .)) (not (eq (dig "procMount" "" .spec.securityContext) "Unmasked")) }}
{{- fail "jobContainers.privateProcesses needs nodes whose root may mount /proc: set cgroup.access=capability, or nodeDefaults.securityContext.procMount=Unmasked" }}
{{- end }}
{{- if not (or $c.seccompProfile $own (include "slurm.remounts" .)) }}
{{- fail "jobContainers.enabled needs nodes whose users may make namespaces, which the runtime's seccomp profile refuses: put profiles/slurmlet-slurmd.json of this chart onto every machine and set jobContainers.seccompProfile, or set cgroup.access=capability (docs/install/job-containers.md)" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What slurmd makes a job's namespaces with: as root of the pod's, or of one where each user is who he is outside. */}}
{{- define "slurm.privateCapabilities" -}}
{{- if and (include "slurm.contains" .) (include "slurm.privateJobs" .root) -}}
{{ ternary "SYS_CHROOT" "SETFCAP" (include "slurm.remounts" . | eq "true") }}
{{- end }}
{{- end }}

{{- define "slurm.containersVolumes" -}}
{{- if include "slurm.contains" . }}
- name: containers
  emptyDir: {{ with .root.Values.jobContainers.size }}{sizeLimit: {{ . }}}{{ else }}{}{{ end }}
{{- end }}
{{- end }}

{{- define "slurm.containersVolumeMounts" -}}
{{- if include "slurm.contains" . }}
- {name: containers, mountPath: /var/lib/slurmlet/containers}
{{- end }}
{{- end }}

{{- /* A slurmd's AppArmor profile, as in Kubernetes' annotation; empty: the runtime's. */}}
{{- define "slurm.appArmor" -}}
{{- $profile := .root.Values.jobContainers.appArmorProfile }}
{{- if and $profile (include "slurm.contains" .) -}}
localhost/{{ $profile }}
{{- else if include "slurm.remounts" . -}}
unconfined
{{- end }}
{{- end }}
