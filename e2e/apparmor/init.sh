#!/bin/bash
# The guest's init: it loads profiles, and makes containers as a user under each. PATH, BIN, ROOT, PARSER and PROFILES are set before.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t tmpfs tmpfs /run
mount -t securityfs securityfs /sys/kernel/security
echo "lsm: $(cat /sys/kernel/security/lsm)"
for profile in slurmlet-slurmd runtime-default; do
	# by the linker and the library of the release that the parser is of
	"$ROOT"/lib64/ld-linux-*.so.* --library-path "$(echo "$ROOT"/usr/lib/*-linux-gnu)" "$PARSER/usr/sbin/apparmor_parser" -K -b "$PARSER/etc/apparmor.d" --replace "$PROFILES/$profile"
done
mkdir -p /run/store/mnt /run/store/oci /run/bundle
mkdir /run/tmp
chmod 1777 /run/store/oci /run/tmp
export TMPDIR=/run/tmp
cat >/run/bundle/config.json <<'J'
{
  "ociVersion": "1.0.0", "root": {"path": "/"}, "hostname": "boxed",
  "process": {"cwd": "/", "user": {"uid": 0, "gid": 0}},
  "mounts": [{"destination": "/proc", "type": "proc"}, {"destination": "/mnt", "type": "tmpfs"}],
  "linux": {"namespaces": [{"type": "pid"}, {"type": "user"}, {"type": "uts"}]}
}
J
# under runs a command as a user, under a profile.
under() {
	local profile=$1
	shift
	bash -c 'echo "exec $0" >/proc/self/attr/exec && exec setpriv --reuid=1000 --regid=1000 --clear-groups "$@"' "$profile" "$@" 2>&1
}
for profile in slurmlet-slurmd runtime-default; do
	echo "== $profile"
	under $profile cat /proc/self/attr/current
	under $profile "$BIN/slurmlet-container" probe -store /run/store
	echo "probe: $?"
	# as slurmstepd and the plugin write it
	printf 'PATH=/usr/bin:/bin\0SLURMLET_COMMAND=sh\n-c\n%s\n\0' \
		'echo "$(hostname) $(id -u)"; cat /proc/self/attr/current; touch /mnt/x && echo written' >/run/store/oci/environment
	chown 1000:1000 /run/store/oci/environment
	under $profile "$BIN/slurmlet-container" oci run --bundle=/run/bundle --environment=/run/store/oci/environment --store=/run/store
	echo "bundle: $?"
done
echo "== end"
echo o >/proc/sysrq-trigger
sleep 60
