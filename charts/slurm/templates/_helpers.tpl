{{- /* Names. A pod's name ends in -slurmctld-0 at most, and is a host name of 63 characters. */}}

{{- define "slurm.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "slurm.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* A component's: its own, the one for all, or the one of its role. */}}
{{- define "slurm.serviceAccountName" -}}
{{- $a := .root.Values.serviceAccount }}
{{- .spec.serviceAccountName | default $a.name | default (ternary (printf "%s-%s" (include "slurm.fullname" .root) .role) "default" $a.create) }}
{{- end }}

{{- /* The node set that stands in for the user's, as long as there are none. */}}
{{- define "slurm.defaultNodeSets" -}}
{{- with .Values.defaultNodeSet }}
{{ . }}: {replicas: 2}
{{- end }}
{{- end }}

{{- /* How many nodes the sets may have. How many a DaemonSet has, nobody knows here. */}}
{{- define "slurm.nodes" -}}
{{- $nodes := 0 }}
{{- range $set, $values := .Values.nodeSets | default (include "slurm.defaultNodeSets" . | fromYaml) }}
{{- $spec := mergeOverwrite (deepCopy $.Values.nodeDefaults) (deepCopy ($values | default dict)) }}
{{- if include "slurm.isElastic" $spec }}
{{- $nodes = add $nodes $spec.elastic.max }}
{{- else if and (ne $spec.workload "DaemonSet") (ne $spec.size "node") }}
{{- $nodes = add $nodes (ternary $spec.autoscaling.maxReplicas $spec.replicas $spec.autoscaling.enabled) }}
{{- end }}
{{- end }}
{{- $nodes }}
{{- end }}

{{- /* The login sets: the one that login describes has no name. */}}
{{- define "slurm.loginSets" -}}
{{- $sets := dict }}
{{- range $set, $values := .Values.loginSets }}
{{- if dig "enabled" true ($values | default dict) }}
{{- $_ := set $sets $set ($values | default dict) }}
{{- end }}
{{- end }}
{{- if .Values.login.enabled }}
{{- $_ := set $sets "" dict }}
{{- end }}
{{- toYaml $sets }}
{{- end }}

{{- /* What cgroup.access says, or follows from cgroup.runtimeClassName. */}}
{{- define "slurm.cgroupAccess" -}}
{{ .Values.cgroup.access | default (empty .Values.cgroup.runtimeClassName | ternary "none" "runtime") }}
{{- end }}

{{- /* The values of each kind of pods over the defaults, by a name: what MariaDB has not. */}}
{{- define "slurm.specs" -}}
{{- $specs := dict }}
{{- $sections := dict "slurmrestd" (ternary .Values.rest nil .Values.rest.enabled) }}
{{- $_ := set $sections "slurmctld" (ternary .Values.controller nil (include "slurm.ownController" . | eq "true")) }}
{{- $_ := set $sections "slurmdbd" (ternary .Values.accounting nil (include "slurm.ownSlurmdbd" . | eq "true")) }}
{{- range $name, $section := $sections }}
{{- if not (kindIs "invalid" $section) }}
{{- $_ := set $specs $name (mergeOverwrite (deepCopy $.Values.podDefaults) (deepCopy $section)) }}
{{- end }}
{{- end }}
{{- range $set, $values := .Values.nodeSets | default (include "slurm.defaultNodeSets" . | fromYaml) }}
{{- $_ := set $specs (printf "nodeSets.%s" $set) (mergeOverwrite (deepCopy $.Values.podDefaults) (deepCopy $.Values.nodeDefaults) (deepCopy ($values | default dict))) }}
{{- end }}
{{- range $set, $values := include "slurm.loginSets" . | fromYaml }}
{{- $_ := set $specs (printf "loginSets.%s" $set) (mergeOverwrite (deepCopy $.Values.podDefaults) (deepCopy $.Values.login) (deepCopy ($values | default dict))) }}
{{- end }}
{{- toYaml $specs }}
{{- end }}

{{- /*
What Pod Security's level the namespace must allow, by what Kubernetes' page of the standards has for baseline.
The values of a pod have no word for the host's namespaces and /proc's mount.
*/}}
{{- define "slurm.podSecurity" -}}
{{- $baseline := list "AUDIT_WRITE" "CHOWN" "DAC_OVERRIDE" "FOWNER" "FSETID" "KILL" "MKNOD" "NET_BIND_SERVICE" "SETFCAP" "SETGID" "SETPCAP" "SETUID" "SYS_CHROOT" }}
{{- $beyond := eq (include "slurm.cgroupAccess" .) "capability" }}
{{- range .Values.sharedVolumes }}
{{- $beyond = or $beyond (hasKey .volume "hostPath") }}
{{- end }}
{{- range include "slurm.specs" . | fromYaml }}
{{- range .extraVolumes }}
{{- $beyond = or $beyond (hasKey . "hostPath") }}
{{- end }}
{{- $contexts := list .podSecurityContext .securityContext }}
{{- range concat .initContainers .sidecars }}
{{- $contexts = append $contexts (.securityContext | default dict) }}
{{- range .ports }}
{{- $beyond = or $beyond (gt (int .hostPort) 0) }}
{{- end }}
{{- end }}
{{- $capabilities := .capabilities | default list }}
{{- range $contexts }}
{{- $capabilities = concat $capabilities (dig "capabilities" "add" list .) }}
{{- $beyond = or $beyond .privileged (eq (dig "seccompProfile" "type" "" .) "Unconfined") (eq (dig "appArmorProfile" "type" "" .) "Unconfined") }}
{{- end }}
{{- range $capabilities }}
{{- $beyond = or $beyond (not (has . $baseline)) }}
{{- end }}
{{- end }}
{{- ternary "privileged" "baseline" (not (not $beyond)) }}
{{- end }}

{{- define "slurm.keys" -}}
{{ .Values.auth.existingSecret | default (printf "%s-keys" (include "slurm.fullname" .)) }}
{{- end }}

{{- define "slurm.hostKeys" -}}
{{ .Values.login.existingHostKeys | default (printf "%s-host-keys" (include "slurm.fullname" .)) }}
{{- end }}

{{- define "slurm.database" -}}
{{ .Values.accounting.existingSecret | default (printf "%s-database" (include "slurm.fullname" .)) }}
{{- end }}

{{- /* "true" where slurmdbd's pod has the volume of dumps. */}}
{{- define "slurm.dumps" -}}
{{ if and .Values.slurm.upgrade .Values.accounting.dumps.enabled }}true{{ end }}
{{- end }}

{{- define "slurm.dumpsClaim" -}}
{{ .Values.accounting.dumps.existingClaim | default (printf "%s-slurmdbd-dumps" (include "slurm.fullname" .)) }}
{{- end }}

{{- /* Whether the chart runs slurmctld, slurmdbd, MariaDB: "true", or nothing. */}}

{{- define "slurm.ownController" -}}{{ if not .Values.controller.external }}true{{ end }}{{- end }}

{{- define "slurm.ownSlurmdbd" -}}{{ if and .Values.accounting.enabled (not .Values.accounting.external) }}true{{ end }}{{- end }}

{{- define "slurm.ownDatabase" -}}
{{ if and (include "slurm.ownSlurmdbd" .) (not .Values.accounting.database.host) }}true{{ end }}
{{- end }}

{{- /* The same in all templates of one rendering, as what is generated stays in the values. Empty for a reader, and where slurmdbd.conf has another one. */}}
{{- define "slurm.databasePassword" -}}
{{- $db := .Values.accounting.database }}
{{- if and $db.passwordSecret.name (not $db.host) }}
{{- fail "accounting.database.passwordSecret is the password of an existing database: set accounting.database.host" }}
{{- end }}
{{- if and $db.passwordSecret.name $db.password }}
{{- fail "accounting.database has two passwords: set password or passwordSecret" }}
{{- end }}
{{- if not (or $db.password $db.passwordSecret.name) }}
{{- $given := false }}
{{- range $key, $_ := .Values.accounting.conf }}
{{- $given = or $given (eq (lower $key) "storagepass") }}
{{- end }}
{{- if and $db.host (not $given) }}
{{- fail "accounting.database.host needs the password of that database: accounting.database.password, or accounting.existingSecret" }}
{{- end }}
{{- if and (not $db.host) (include "slurm.makes" (dict "root" . "what" "MariaDB's password" "value" "accounting.existingSecret or accounting.database.password")) }}
{{- $old := (lookup "v1" "Secret" .Release.Namespace (include "slurm.database" .)).data | default dict }}
{{- $_ := set $db "password" (get $old "password" | b64dec | default (randAlphaNum 32)) }}
{{- end }}
{{- end }}
{{- $db.password }}
{{- end }}

{{- define "slurm.initSQL" -}}
{{- $db := .Values.accounting.database -}}
CREATE DATABASE IF NOT EXISTS `{{ $db.name }}`;
CREATE USER IF NOT EXISTS '{{ $db.user }}'@'%';
ALTER USER '{{ $db.user }}'@'%' IDENTIFIED BY '{{ include "slurm.databasePassword" . | replace "\\" "\\\\" | replace "'" "\\'" }}';
GRANT ALL ON `{{ $db.name }}`.* TO '{{ $db.user }}'@'%';
{{- end }}

{{- /* Where slurmctld is, for SLURMLET_SLURMCTLD. */}}
{{- define "slurm.controller" -}}
{{- if include "slurm.ownController" . -}}
{{ include "slurm.fullname" . }}-slurmctld:6817
{{- else -}}
{{ join "," .Values.controller.external }}
{{- end }}
{{- end }}

{{- /*
A component is what the templates hand around: root, role (a role of slurmlet),
name (of its objects), spec (its values over the defaults), set, a node set's name, and
ownName, that of a Service which leads to this one pod.
*/}}

{{- define "slurm.labels" -}}
{{- $labels := include "slurm.selector" . | fromYaml }}
{{- $_ := set $labels "app.kubernetes.io/managed-by" .root.Release.Service }}
{{- $_ := set $labels "app.kubernetes.io/part-of" "slurm" }}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_") }}
{{- mergeOverwrite $labels .root.Values.commonLabels | toYaml }}
{{- end }}

{{- define "slurm.selector" -}}
app.kubernetes.io/name: {{ include "slurm.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component | default .role }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- with .set }}
slurmlet.dev/node-set: {{ . | quote }}
{{- end }}
{{- end }}

{{- define "slurm.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels: {{- include "slurm.labels" . | nindent 2 }}
{{- end }}

{{- define "slurm.image" -}}
{{- $i := .root.Values.image }}
{{- if not (or .spec.image $i.registry) }}
{{- fail "image.registry is empty: name the registry that has slurmlet's images, as in --set image.registry=registry.example/slurmlet. The README builds them" }}
{{- end }}
{{- .spec.image | default (printf "%s/%s:%s-%s" $i.registry .role ($i.tag | default .root.Chart.AppVersion) $i.slurm) }}
{{- end }}

{{- /*
Whether this rendering may make a secret: "true", or nothing where helm renders for a reader (helm template), who could
not see what is there already. A tool that applies what it has rendered without a look into the cluster (Argo CD) would
make another one each time: it tells the kinds of the cluster, which helm template does not know by itself.
*/}}
{{- define "slurm.makes" -}}
{{- if .root.Capabilities.APIVersions.Has "apps/v1/StatefulSet" }}
{{- if or (lookup "v1" "ConfigMap" .root.Release.Namespace "kube-root-ca.crt") (lookup "v1" "Namespace" "" "kube-system") -}}
true
{{- else }}
{{- fail (printf "this rendering cannot look into the cluster, as in Argo CD or with --dry-run=client, and would make %s anew each time: set %s, or render with --dry-run=server" .what .value) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* From SIGTERM to SIGKILL: the agent must know which comes first. */}}
{{- define "slurm.gracePeriod" -}}
{{ min (int64 .terminationGracePeriodSeconds) (int64 (.deletionGracePeriodSeconds | default .terminationGracePeriodSeconds)) }}
{{- end }}

{{- /* Whose a role's processes are. slurmd and login have no entry: they start jobs and sessions as their users. */}}
{{- define "slurm.uid" -}}
{{ get (dict "slurmctld" "64030" "slurmdbd" "64030" "slurmrestd" "820") .role }}
{{- end }}

{{- define "slurm.podSecurityContext" -}}
{{- with include "slurm.uid" . }}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
# So that it can read the cluster's key. The agents of slurmd and login are root, and a group of everybody's homes would be wrong.
fsGroup: {{ . }}
fsGroupChangePolicy: OnRootMismatch
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- /* Whether its agent makes a cgroup writable: "true", or nothing. */}}
{{- define "slurm.remounts" -}}
{{ if and (eq .role "slurmd") (eq (include "slurm.cgroupAccess" .root) "capability") }}true{{ end }}
{{- end }}

{{- define "slurm.securityContext" -}}
allowPrivilegeEscalation: false
{{- if include "slurm.uid" . }}
readOnlyRootFilesystem: true
{{- end }}
{{- with include "slurm.appArmor" . }}
{{- if semverCompare ">=1.30.0-0" $.root.Capabilities.KubeVersion.Version }}
# The runtime's profile denies every mount; on machines without AppArmor this is nothing
appArmorProfile: {{ if eq . "unconfined" }}{type: Unconfined}{{ else }}{type: Localhost, localhostProfile: {{ trimPrefix "localhost/" . }}}{{ end }}
{{- end }}
{{- end }}
{{- if and (include "slurm.contains" .) .root.Values.jobContainers.seccompProfile }}
seccompProfile: {type: Localhost, localhostProfile: {{ .root.Values.jobContainers.seccompProfile }}}
{{- end }}
capabilities:
  drop: [ALL]
  {{- with include (printf "slurm.%s.capabilities" .role) . | fromYamlArray }}
  add: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* The default of a map, with what the values change in it. */}}
{{- define "slurm.changed" -}}
{{ mergeOverwrite (fromYaml (index . 0)) (index . 1) | toYaml }}
{{- end }}

{{- define "slurm.probes" -}}
startupProbe:
  {{- if eq .role "slurmdbd" }}
  # Being started may mean to convert a database, which nothing may end: only an agent that does not answer is ended
  httpGet: {path: /livez, port: agent}
  {{- else }}
  # Being started may mean to wait for slurmctld: an hour
  httpGet: {path: /startupz, port: agent}
  {{- end }}
  periodSeconds: 1
  failureThreshold: 3600
readinessProbe:
  httpGet: {path: /readyz, port: agent}
  periodSeconds: 5
livenessProbe:
  # The one that ends a container, and jobs with it: on the agent's socket, where no stranger is in its way
  exec: {command: {{ concat .spec.command (list "probe" "liveness") | toJson }}}
  periodSeconds: 60
  timeoutSeconds: 30
  failureThreshold: 5
{{- end }}

{{- define "slurm.changedProbes" -}}
{{- $probes := include "slurm.probes" . | fromYaml }}
{{- range $name, $change := .spec.probes }}
{{- $probe := get $probes (printf "%sProbe" $name) }}
{{- range $how := list "exec" "httpGet" "tcpSocket" "grpc" }}
{{- if get $change $how }}
{{- $probe = omit $probe "exec" "httpGet" }}
{{- end }}
{{- end }}
{{- $_ := set $probes (printf "%sProbe" $name) (mergeOverwrite $probe $change) }}
{{- end }}
{{- toYaml $probes }}
{{- end }}

{{- define "slurm.sharedVolumes" -}}
{{- range .root.Values.sharedVolumes }}
- name: shared-{{ .name }}
  {{- toYaml .volume | nindent 2 }}
{{- end }}
{{- end }}

{{- define "slurm.sharedVolumeMounts" -}}
{{- range .root.Values.sharedVolumes }}
- name: shared-{{ .name }}
  mountPath: {{ .mountPath }}
  {{- with .subPath }}
  subPath: {{ . }}
  {{- end }}
  {{- with .readOnly }}
  readOnly: {{ . }}
  {{- end }}
{{- end }}
{{- end }}

{{- /* The cluster's key, whichever there is, for who takes the configuration from slurmctld. */}}
{{- define "slurm.keyVolume" -}}
- name: etc-slurm
  projected:
    defaultMode: 0440
    sources:
      {{- range $key := list "slurm.key" "slurm.jwks" }}
      - secret:
          name: {{ include "slurm.keys" $.root }}
          optional: true
          items:
            - {key: {{ $key }}, path: {{ $key }}}
      {{- end }}
{{- end }}

{{- /*
sssd, where users are in a directory. The agents of slurmd and login are root, and run it beside the daemon.
Those of slurmctld and slurmdbd are not: it has a container of its own, and they share its sockets.
*/}}
{{- define "slurm.sssdApart" -}}
{{ if and .root.Values.sssd.secret (include "slurm.uid" .) }}true{{ end }}
{{- end }}

{{- define "slurm.sssdVolumes" -}}
{{- $ca := .root.Values.sssd.ca }}
{{- $hasCA := or $ca.configMap $ca.secret }}
{{- if and $ca.configMap $ca.secret }}
{{- fail "sssd.ca has a configMap and a secret: leave one of them empty" }}
{{- end }}
{{- if and $hasCA (not .root.Values.sssd.secret) }}
{{- fail "sssd.ca is for sssd, which needs its configuration: set sssd.secret" }}
{{- end }}
{{- with .root.Values.sssd.secret }}
- name: sssd
  projected:
    defaultMode: 0400
    sources:
      - secret: {name: {{ . }}}
      {{- if $hasCA }}
      - {{ ternary "secret" "configMap" (empty $ca.configMap) }}:
          name: {{ $ca.configMap | default $ca.secret }}
          items: [{key: {{ $ca.key }}, path: ca.crt}]
      {{- end }}
{{- end }}
{{- if include "slurm.sssdApart" . }}
- name: sssd-pipes
  emptyDir: {medium: Memory}
{{- end }}
{{- end }}

{{- define "slurm.sssdVolumeMounts" -}}
{{- if include "slurm.sssdApart" . }}
- {name: sssd-pipes, mountPath: /var/lib/sss/pipes, readOnly: true}
{{- else if .root.Values.sssd.secret }}
- {name: sssd, mountPath: /etc/sssd, readOnly: true}
{{- end }}
{{- end }}

{{- /* sssd wants its configuration to be root's alone, which no file of a Secret is in a pod with an fsGroup. */}}
{{- define "slurm.sssdContainer" -}}
- name: sssd
  image: {{ include "slurm.image" . }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command:
    - sh
    - -euc
    - |
      # An fsGroup makes directories setgid; sssd refuses sockets that are not root's.
      install -d -g root -m 00755 /var/lib/sss/pipes
      install -d -g root -m 00700 /etc/sssd /var/lib/sss/pipes/private
      install -m 600 /etc/slurmlet/sssd/* /etc/sssd/
      if [ -e /etc/sssd/ca.crt ] && ! grep -q ldap_tls_cacert /etc/sssd/sssd.conf; then
        sed -i 's|^\[domain/[^/]*\]$|&\nldap_tls_cacert = /etc/sssd/ca.crt|' /etc/sssd/sssd.conf
      fi
      exec sssd -i --logger=stderr
  securityContext:
    runAsNonRoot: false
    runAsUser: 0
    runAsGroup: 0
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
      add: [CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID]
  resources: {requests: {cpu: 10m, memory: 100Mi}}
  volumeMounts:
    - {name: sssd, mountPath: /etc/slurmlet/sssd, readOnly: true}
    - {name: sssd-pipes, mountPath: /var/lib/sss/pipes}
{{- end }}

{{- /* Writable directories of those whose root file system is not. */}}
{{- define "slurm.scratchVolumes" -}}
- name: run
  emptyDir: {medium: Memory}
- name: tmp
  emptyDir: {}
{{- end }}

{{- define "slurm.scratchVolumeMounts" -}}
- {name: run, mountPath: /run}
- {name: tmp, mountPath: /tmp}
{{- end }}

{{- /*
The hosts file of a pod whose agent is not root and writes the peers' names into it. The kubelet's own is root's.
slurmctld asks for the hosts from which users start jobs, which DNS may not know.
*/}}
{{- define "slurm.hostsApart" -}}
{{ if and .root.Values.peers.address (include "slurm.uid" .) }}true{{ end }}
{{- end }}

{{- define "slurm.hostsContainer" -}}
- name: hosts
  image: {{ include "slurm.image" . }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [cp, /etc/hosts, /run/slurmlet-hosts/hosts]
  {{- with .spec.resources }}
  resources: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "slurm.changed" (list (include "slurm.securityContext" .) .spec.securityContext) | nindent 4 }}
  volumeMounts:
    - {name: hosts, mountPath: /run/slurmlet-hosts}
{{- end }}

{{- /*
A daemon knows its Service's name by itself: its commands need no DNS, nor a CNI that leads a pod back to itself.
Every pod knows slurmlet's controller if peers.clusterIPs has its addresses.
*/}}
{{- define "slurm.hostAliases" -}}
{{- with .ownName }}
- {ip: 127.0.0.1, hostnames: [{{ . }}]}
{{- end }}
{{- $peers := .root.Values.peers }}
{{- if and $peers.clusterIPs (not $peers.address) }}
{{- fail "peers.clusterIPs are the addresses of slurmlet's controller: install charts/slurmlet, and set peers.address=slurmlet.slurmlet.svc:443" }}
{{- end }}
{{- range $peers.clusterIPs }}
- {ip: {{ . | quote }}, hostnames: [{{ splitList ":" $peers.address | first }}]}
{{- end }}
{{- end }}

{{- define "slurm.spread" -}}
{{- range .spec.topologySpreadConstraints }}
- {{ merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" (include "slurm.selector" $ | fromYaml))) | toYaml | nindent 2 | trim }}
{{- end }}
{{- end }}

{{- /* Peers are found by their pods' names. */}}
{{- define "slurm.dnsConfig" -}}
{{- $own := printf "%s.%s.svc.%s" (include "slurm.fullname" .root) .root.Release.Namespace .root.Values.clusterDomain }}
{{- $dns := omit .spec.dnsConfig "dnsPolicy" }}
{{- set (deepCopy $dns) "searches" (prepend ($dns.searches | default list) $own) | toYaml }}
{{- end }}

{{- /*
The template of a role's pods. The role says its part in slurm.<role>.env,
.ports, .volumes, .volumeMounts, .capabilities and .annotations.
*/}}
{{- define "slurm.podTemplate" -}}
{{- $s := .spec }}
{{- include "slurm.dropNulls" $s.resources }}
{{- $part := printf "slurm.%s" .role }}
{{- /* slurmlet's controller takes reports of jobs from login pods with this label alone. */}}
{{- $marks := ternary (dict "slurmlet.dev/gateway" "true") dict (and (eq .role "login") (dig "gateway" "enabled" false $s)) }}
metadata:
  labels:
    {{- merge (deepCopy $s.podLabels) (include "slurm.selector" . | fromYaml) .root.Values.commonLabels (dict "slurmlet.dev/cluster" (include "slurm.fullname" .root) "slurmlet.dev/role" .role) $marks | toYaml | nindent 4 }}
  {{- with merge (deepCopy $s.podAnnotations) (include (printf "%s.annotations" $part) . | fromYaml) (include "slurm.scrapeAnnotations" . | fromYaml) }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "slurm.serviceAccountName" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ int64 $s.terminationGracePeriodSeconds }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "slurm.scheduling" . | trim }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with $s.dnsConfig.dnsPolicy }}
  dnsPolicy: {{ . }}
  {{- end }}
  dnsConfig: {{- include "slurm.dnsConfig" . | nindent 4 }}
  {{- with include "slurm.hostAliases" . | trim }}
  hostAliases: {{- . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "slurm.changed" (list (include "slurm.podSecurityContext" .) $s.podSecurityContext) | nindent 4 }}
  {{- with concat (ternary (include "slurm.hostsContainer" . | fromYamlArray) list (eq (include "slurm.hostsApart" .) "true")) $s.initContainers }}
  initContainers: {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: {{ .role }}
      image: {{ include "slurm.image" . }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      command: {{ append $s.command .role | toJson }}
      env:
        - {name: SLURMLET_GRACE_PERIOD, value: {{ include "slurm.gracePeriod" $s }}s}
        - {name: SLURMLET_LOG_LEVEL, value: {{ $s.logLevel }}}
        {{- with .root.Values.peers.address }}
        - {name: SLURMLET_PEERS, value: {{ . | quote }}}
        {{- end }}
        {{- include (printf "%s.env" $part) . | nindent 8 }}
        {{- with $s.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with $s.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: agent, containerPort: 8817}
        {{- include (printf "%s.ports" $part) . | nindent 8 }}
      {{- include "slurm.changedProbes" . | nindent 6 }}
      {{- with $s.resources }}
      resources: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "slurm.changed" (list (include "slurm.securityContext" .) $s.securityContext) | nindent 8 }}
      volumeMounts:
        {{- include (printf "%s.volumeMounts" $part) . | nindent 8 }}
        {{- if .root.Values.peers.address }}
        - {name: peers, mountPath: /etc/slurmlet/peers, readOnly: true}
        {{- end }}
        {{- if include "slurm.hostsApart" . }}
        - {name: hosts, mountPath: /etc/hosts, subPath: hosts}
        {{- end }}
        {{- with $s.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- if and (include "slurm.sssdApart" .) (ne .role "slurmrestd") }}
    {{- include "slurm.sssdContainer" . | nindent 4 }}
    {{- end }}
    {{- with $s.sidecars }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include (printf "%s.volumes" $part) . | nindent 4 }}
    {{- if .root.Values.peers.address }}
    # The controller takes this token, and Kubernetes' API does not. The agent alone can read it.
    - name: peers
      projected:
        defaultMode: 0400
        sources:
          - serviceAccountToken: {audience: slurmlet.dev/peers, expirationSeconds: 3600, path: token}
          # No pod waits for a controller that is away.
          - configMap: {name: slurmlet-ca, optional: true, items: [{key: ca.crt, path: ca.crt}]}
    {{- end }}
    {{- if include "slurm.hostsApart" . }}
    - name: hosts
      emptyDir: {}
    {{- end }}
    {{- with $s.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- /* Where and how a pod is run; MariaDB's too. */}}
{{- define "slurm.scheduling" -}}
{{- if kindIs "bool" .spec.hostUsers }}
hostUsers: {{ .spec.hostUsers }}
{{- end }}
{{- with include "slurm.runtimeClassName" . }}
runtimeClassName: {{ . }}
{{- end }}
{{- range $key := list "resourceClaims" "nodeSelector" "tolerations" "priorityClassName" "schedulerName" }}
{{- with get $.spec $key }}
{{ $key }}: {{- if kindIs "string" . }} {{ . }}{{ else }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end }}
{{- end }}
{{- with include "slurm.affinity" . | fromYaml }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with include "slurm.spread" . }}
topologySpreadConstraints: {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Takes away what a set's null takes away from the defaults: Kubernetes would read 0. */}}
{{- define "slurm.dropNulls" -}}
{{- range $kind := list "limits" "requests" }}
{{- $amounts := get $ $kind | default dict }}
{{- range $name, $amount := $amounts }}
{{- if kindIs "invalid" $amount }}
{{- $_ := unset $amounts $name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* "true" where a limit is missing: the node registers the machine's CPUs, or memory. */}}
{{- define "slurm.unlimited" -}}
{{- $limits := (.resources | default dict).limits | default dict }}
{{- if not (and $limits.cpu $limits.memory) }}true{{ end }}
{{- end }}

{{- /* A node that registers its machine shares it with no other node, of no cluster. */}}
{{- define "slurm.affinity" -}}
{{- $affinity := deepCopy (.spec.affinity | default dict) }}
{{- if and (eq .role "slurmd") (include "slurm.unlimited" .spec) }}
{{- $anti := $affinity.podAntiAffinity | default dict }}
{{- $key := "requiredDuringSchedulingIgnoredDuringExecution" }}
{{- $alone := dict "topologyKey" "kubernetes.io/hostname" "namespaceSelector" dict "labelSelector" (dict "matchLabels" (dict "slurmlet.dev/role" "slurmd")) }}
{{- $_ := set $anti $key (append (get $anti $key | default list) $alone) }}
{{- $_ := set $affinity "podAntiAffinity" $anti }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- /* The runtime class of slurmd and login pods makes their cgroups writable, unless they have one of their own. */}}
{{- define "slurm.runtimeClassName" -}}
{{- $writable := and (has .role (list "slurmd" "login")) (eq (include "slurm.cgroupAccess" .root) "runtime") }}
{{- .spec.runtimeClassName | default (ternary .root.Values.cgroup.runtimeClassName "" $writable) }}
{{- end }}

{{- /* A volume's claim, from the values' persistence. */}}
{{- define "slurm.claim" -}}
metadata:
  name: state
  labels: {{- include "slurm.selector" . | nindent 4 }}
spec:
  accessModes: {{- toYaml .persistence.accessModes | nindent 4 }}
  {{- with .persistence.storageClassName }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .persistence.size }}
{{- end }}

{{- define "slurm.families" -}}
{{- with .Values.ipFamilyPolicy }}
ipFamilyPolicy: {{ . }}
{{- end }}
{{- with .Values.ipFamilies }}
ipFamilies: {{ toJson . }}
{{- end }}
{{- end }}

{{- /* "true" where the cluster speaks IPv6, which Slurm must be told. */}}
{{- define "slurm.speaksIPv6" -}}
{{ if or (has "IPv6" .Values.ipFamilies) (contains "DualStack" .Values.ipFamilyPolicy) }}true{{ end }}
{{- end }}

{{- /* A Service of .service's type: .port is the port's name, .number its number. With .early it leads to pods that are not Ready, too. */}}
{{- define "slurm.service" -}}
apiVersion: v1
kind: Service
metadata:
  {{- include "slurm.metadata" . | nindent 2 }}
  {{- with .service.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  type: {{ .service.type }}
  {{- if .early }}
  # A daemon serves before its agent says Ready.
  publishNotReadyAddresses: true
  {{- end }}
  {{- include "slurm.families" .root | nindent 2 }}
  {{- if and .service.externalTrafficPolicy (ne .service.type "ClusterIP") }}
  externalTrafficPolicy: {{ .service.externalTrafficPolicy }}
  {{- end }}
  {{- with .service.loadBalancerSourceRanges }}
  loadBalancerSourceRanges: {{- toYaml . | nindent 4 }}
  {{- end }}
  selector: {{- include "slurm.selector" . | nindent 4 }}
  ports:
    - {name: {{ .port }}, port: {{ .number }}, targetPort: {{ .port }}}
{{- end }}

{{- define "slurm.podDisruptionBudget" -}}
{{- if gt (len .spec.podDisruptionBudget) 1 }}
{{- fail (printf "%s: podDisruptionBudget has both minAvailable and maxUnavailable, here and in the defaults together: set it in one place" .name) }}
{{- end }}
{{- if .spec.podDisruptionBudget }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{- include "slurm.metadata" . | nindent 2 }}
spec:
  selector:
    matchLabels: {{- include "slurm.selector" . | nindent 6 }}
  {{- toYaml .spec.podDisruptionBudget | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Key=value lines of a list of maps: the later wins, keys are the same in any case, null takes one away, a list is as many lines. */}}
{{- define "slurm.lines" -}}
{{- $lines := dict }}
{{- range . }}
{{- range $key, $value := . }}
{{- $own := list }}
{{- range (ternary $value (list $value) (kindIs "slice" $value)) }}
{{- $own = append $own (printf "%s=%s" $key (include "slurm.scalar" .)) }}
{{- end }}
{{- $_ := set $lines (lower $key) (ternary "" (join "\n" $own) (kindIs "invalid" $value)) }}
{{- end }}
{{- end }}
{{- range $lines }}
{{- with . }}
{{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* YAML's numbers are floating ones here: 10000000 would be 1e+07. */}}
{{- define "slurm.scalar" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ . }}{{ end }}
{{- end }}

{{- /* sshd starts sessions as their users, in a directory of its own until they are known. */}}
{{- define "slurm.sshCapabilities" -}}
{{ list "CHOWN" "DAC_OVERRIDE" "FOWNER" "KILL" "SETGID" "SETUID" "SYS_CHROOT" "NET_BIND_SERVICE" "AUDIT_WRITE" | toYaml }}
{{- end }}

{{- /* What sshd has, in login pods and in those of node sets with ssh. */}}
{{- define "slurm.sshVolumeMounts" -}}
- {name: host-keys, mountPath: /etc/slurmlet/host_keys, readOnly: true}
- {name: authorized-keys, mountPath: /etc/slurmlet/authorized_keys, readOnly: true}
{{- end }}

{{- define "slurm.sshVolumes" -}}
- name: host-keys
  secret:
    secretName: {{ .spec.existingHostKeys | default .root.Values.login.existingHostKeys | default (include "slurm.hostKeys" .root) }}
    defaultMode: 0440
- name: authorized-keys
  configMap:
    name: {{ .authorizedKeys | default (printf "%s-authorized-keys" (include "slurm.fullname" .root)) }}
    {{- if eq .role "slurmd" }}
    optional: true # without login pods
    {{- end }}
{{- end }}

{{- /* Whether a node set has ssh: "true", or nothing. */}}
{{- define "slurm.sshNodes" -}}
{{- $found := "" }}
{{- range .Values.nodeSets | default (include "slurm.defaultNodeSets" . | fromYaml) }}
{{- if (mergeOverwrite (deepCopy $.Values.nodeDefaults) (deepCopy (. | default dict))).ssh }}
{{- $found = "true" }}
{{- end }}
{{- end }}
{{- $found }}
{{- end }}
