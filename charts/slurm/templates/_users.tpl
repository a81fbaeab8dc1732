{{- /*
All that users has: passwd and group are lines, keys are authorized keys and accounts default accounts, by name. A double
name or number is refused by name, for the pods would know one of the two.
*/}}
{{- define "slurm.users" -}}
{{- $own := list "root" "daemon" "bin" "sys" "sync" "games" "man" "lp" "mail" "news" "uucp" "proxy" "www-data" "backup" "list" "irc" "nobody" "slurm" "slurmrestd" "sshd" "sssd" "munge" "systemd-network" "messagebus" "_apt" }}
{{- $uids := dict }}
{{- $names := dict }}
{{- $gids := dict }}
{{- $groups := dict }}
{{- $members := dict }}
{{- $passwd := list }}
{{- $keys := dict }}
{{- $accounts := dict }}
{{- range $user := .Values.users }}
{{- $uid := .uid | int64 }}
{{- $gid := .gid | default .uid | int64 }}
{{- if has .name $own }}
{{- fail (printf "users: %s is a user of the images: give it another name" .name) }}
{{- end }}
{{- if hasKey $names .name }}
{{- fail (printf "users: %s is there twice" .name) }}
{{- end }}
{{- if hasKey $uids (toString $uid) }}
{{- fail (printf "users: %s and %s have one uid, %d" (get $uids (toString $uid)) .name $uid) }}
{{- end }}
{{- if has $uid (list (int64 64030) (int64 65534)) }}
{{- fail (printf "users: %s has the uid of a user of the images, %d" .name $uid) }}
{{- end }}
{{- $_ := set $names .name true }}
{{- $_ := set $uids (toString $uid) .name }}
{{- range $group, $number := .groups | default dict }}
{{- $number = int64 $number }}
{{- if ne (get $groups $group | default $number | int64) $number }}
{{- fail (printf "users: the group %s has two gids, %d and %d" $group (get $groups $group | int64) $number) }}
{{- end }}
{{- if ne (get $gids (toString $number) | default $group) $group }}
{{- fail (printf "users: the groups %s and %s have one gid, %d" (get $gids (toString $number)) $group $number) }}
{{- end }}
{{- if has $group $own }}
{{- fail (printf "users: %s is a group of the images: give it another name" $group) }}
{{- end }}
{{- $_ := set $groups $group $number }}
{{- $_ := set $gids (toString $number) $group }}
{{- end }}
{{- range $group, $_ := .groups | default dict }}
{{- $_ := set $members $group (append (get $members $group | default list) $user.name) }}
{{- end }}
{{- $passwd = append $passwd (printf "%s:*:%d:%d::%s:%s" .name $uid $gid (.home | default (printf "/home/%s" .name)) (.shell | default "/bin/bash")) }}
{{- with .keys }}
{{- $_ := set $keys $user.name (join "\n" .) }}
{{- end }}
{{- with .account }}
{{- $_ := set $accounts $user.name . }}
{{- end }}
{{- end }}
{{- range .Values.users }}
{{- $gid := toString (.gid | default .uid | int64) }}
{{- if not (hasKey $gids $gid) }}
{{- if hasKey $groups .name }}
{{- fail (printf "users: the group %s has two gids, %s and %d" .name $gid (get $groups .name | int64)) }}
{{- end }}
{{- $_ := set $groups .name (int64 $gid) }}
{{- $_ := set $gids $gid .name }}
{{- end }}
{{- end }}
{{- $lines := list }}
{{- range $group, $number := $groups }}
{{- $lines = append $lines (printf "%s:*:%d:%s" $group (int64 $number) (join "," (get $members $group | default list))) }}
{{- end }}
{{- toYaml (dict "passwd" $passwd "group" $lines "keys" $keys "accounts" $accounts) }}
{{- end }}

{{- /* Many who leave at once, or all of them, are a mistake more often than not. */}}
{{- define "slurm.refuseLeavers" -}}
{{- $old := dig "data" "passwd" "" (lookup "v1" "ConfigMap" .Release.Namespace (printf "%s-users" (include "slurm.fullname" .)) | default dict) }}
{{- $names := dict }}
{{- range .Values.users }}
{{- $_ := set $names .name true }}
{{- end }}
{{- $all := 0 }}
{{- $gone := list }}
{{- range splitList "\n" $old }}
{{- $name := first (splitList ":" .) }}
{{- if $name }}
{{- $all = add1 $all }}
{{- if not (hasKey $names $name) }}
{{- $gone = append $gone $name }}
{{- end }}
{{- end }}
{{- end }}
{{- $count := len $gone }}
{{- $many := and (ge $count 3) (gt (mul 20 $count) (int64 $all)) }}
{{- range $gone }}
{{- if and (or $many (not $.Values.users)) (not (has . $.Values.usersRemoved)) }}
{{- fail (printf "users: %d of %d would leave, and their sessions and jobs end: set usersRemoved={%s} if they shall" $count $all (join "," $gone)) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Whether pods have the list of users: "true", or nothing. It is there, and empty, for the last one who leaves. */}}
{{- define "slurm.hasUsers" -}}
{{ if or .Values.users .Values.usersRemoved .Values.sssd.secret }}true{{ end }}
{{- end }}

{{- define "slurm.usersVolumes" -}}
{{- if include "slurm.hasUsers" .root }}
- name: users
  configMap: {name: {{ include "slurm.fullname" .root }}-users}
{{- end }}
{{- end }}

{{- define "slurm.usersVolumeMounts" -}}
{{- if include "slurm.hasUsers" .root }}
- {name: users, mountPath: /var/lib/extrausers, readOnly: true}
{{- end }}
{{- end }}

{{- /* Whether slurmctld's agent has a file of accounts: "true", or nothing. */}}
{{- define "slurm.hasAccounts" -}}
{{ if or .Values.accounts (include "slurm.users" . | fromYaml).accounts }}true{{ end }}
{{- end }}

{{- /* A user of both values has the keys of both. */}}
{{- define "slurm.authorizedKeys" -}}
{{- $all := deepCopy .own }}
{{- range $user, $keys := (include "slurm.users" .root | fromYaml).keys }}
{{- $_ := set $all $user (trimAll "\n" (printf "%s\n%s" (get $all $user) $keys)) }}
{{- end }}
{{- toYaml $all }}
{{- end }}
