package inject

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// Where the agent finds what the pod has for it, unless a variable says otherwise.
const (
	confDir       = "/etc/slurm"
	podinfoDir    = "/etc/podinfo"
	spoolDir      = "/var/spool/slurmd"
	peersDir      = "/etc/slurmlet/peers"
	containersDir = "/var/lib/slurmlet/containers"
)

// addVolumes adds what charts/slurm gives to a pod of the role, where the container mounts nothing.
func (i *injection) addVolumes() {
	i.addKeys()
	if i.role.name == "slurmd" {
		i.mountUnlessOwn("slurmlet-podinfo", podinfoDir, true, podinfo())
		if i.contains {
			i.mountUnlessOwn("slurmlet-containers", containersDir, false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		}
		i.mountUnlessOwn("slurmlet-spool", cmp.Or(i.variable("SLURMLET_SPOOL_DIR"), spoolDir), false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	}
	// What an agent writes to that is not root, or whose file system is read-only.
	if c := i.target.SecurityContext; !i.role.root || c != nil && c.ReadOnlyRootFilesystem != nil && *c.ReadOnlyRootFilesystem {
		i.mountUnlessOwn("slurmlet-run", "/run", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
		i.mountUnlessOwn("slurmlet-tmp", "/tmp", false, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	}
	if i.Peers != "" {
		i.refuseBelow(peersDir)
		i.mount("slurmlet-peers", peersDir, true, i.credentials())
	}
}

// addKeys mounts the cluster's key, whichever there is; slurmctld sends the rest.
func (i *injection) addKeys() {
	own := i.mountsBelow(confDir)
	switch {
	case !i.role.keys || i.keys == noKeys || i.keys == "" && own:
		return
	case own:
		i.fault(field.Invalid(annotations.Key(wellknown.Keys), i.keys, fmt.Sprintf("the container %s mounts a volume of its own at %s: leave one of both out", i.target.Name, confDir)))
		return
	}
	secret := cmp.Or(i.keys, i.cluster+"-keys")
	i.say("the keys of the Secret %s are at %s", secret, confDir)
	var sources []corev1.VolumeProjection
	for _, key := range []string{"slurm.key", "slurm.jwks"} {
		sources = append(sources, corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: secret},
			Items:                []corev1.KeyToPath{{Key: key, Path: key}},
			Optional:             new(true),
		}})
	}
	i.mount("slurmlet-keys", confDir, true, corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: sources, DefaultMode: new(int32(0o440))}})
}

// podinfo is the pod's description, which the agent follows.
func podinfo() corev1.VolumeSource {
	item := func(name string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: name, FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata." + name}}
	}
	return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{item("labels"), item("annotations")}}}
}

// credentials let the agent in at the controller. No process of a user can read them.
func (i *injection) credentials() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(0o400)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: wire.Audience, ExpirationSeconds: new(int64(3600)), Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: i.Authority},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				Optional:             new(true),
			}},
		},
	}}
}

// mountUnlessOwn leaves a directory alone that the container has mounted, or one above it.
func (i *injection) mountUnlessOwn(name, dir string, readOnly bool, source corev1.VolumeSource) {
	if !i.mounts(dir) {
		i.mount(name, dir, readOnly, source)
	}
}

func (i *injection) mount(name, dir string, readOnly bool, source corev1.VolumeSource) {
	i.addVolume(name, source)
	i.target.VolumeMounts = append(i.target.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: dir, ReadOnly: readOnly})
}

func (i *injection) addVolume(name string, source corev1.VolumeSource) {
	if n := slices.IndexFunc(i.pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name }); n >= 0 {
		i.fault(field.Invalid(field.NewPath("spec", "volumes").Index(n).Child("name"), name, "the webhook adds a volume of this name: rename it"))
		return
	}
	i.pod.Spec.Volumes = append(i.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
}

// mounts says whether the target mounts a volume at dir, or above it.
func (i *injection) mounts(dir string) bool {
	return slices.ContainsFunc(i.target.VolumeMounts, func(m corev1.VolumeMount) bool { return within(dir, m.MountPath) })
}

// mountsBelow says whether the target mounts a volume at dir, above it, or below.
func (i *injection) mountsBelow(dir string) bool {
	return i.mounts(dir) || slices.ContainsFunc(i.target.VolumeMounts, func(m corev1.VolumeMount) bool { return within(m.MountPath, dir) })
}

// refuseBelow refuses volumes at or below a directory of the agent's.
func (i *injection) refuseBelow(dir string) {
	for n, m := range i.target.VolumeMounts {
		if within(m.MountPath, dir) {
			i.fault(field.Invalid(i.at.Child("volumeMounts").Index(n).Child("mountPath"), m.MountPath, dir+" is the agent's: mount the volume elsewhere"))
		}
	}
}

// within says whether dir is above, or its parent.
func within(dir, above string) bool {
	dir, above = path.Clean("/"+dir), path.Clean("/"+above)
	return dir == above || strings.HasPrefix(dir, strings.TrimSuffix(above, "/")+"/")
}
