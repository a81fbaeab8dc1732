package parts

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// kubernetes are the programs of a cluster: the control plane, what runs on a
// node, CoreDNS, kubectl and the pause container's.
var kubernetes = module{
	name:     "kube",
	packages: 2600,
	tags:     "no_btrfs,no_devmapper,no_zfs,no_rdt",
	flags:    kubernetesFlags,
	plain: []string{
		"k8s.io/kubernetes/...", "k8s.io/apiserver/...", "k8s.io/apiextensions-apiserver/...", "k8s.io/kube-aggregator/...", "k8s.io/kubectl/...",
		"k8s.io/client-go/kubernetes/typed/.../fake", "github.com/google/cel-go/...", "go.etcd.io/...", "github.com/coredns/...", "github.com/quic-go/...",
	},
	// The last part of etcd's package path that is not a version.
	rename: map[string]string{"server": "etcd"},
}

// Kube returns the directory with Kubernetes' programs, building them when the
// cache has none: about 12 CPU minutes.
func Kube(ctx context.Context, p Progress) (string, error) { return kubernetes.obtain(ctx, p) }

// workloads are the controllers of pods that come in groups, with their own versions of Kubernetes' libraries, which no
// other build has.
var workloads = module{
	name: "workloads", packages: 720,
	plain:  []string{"k8s.io/...", "sigs.k8s.io/...", "github.com/google/cel-go/..."},
	rename: map[string]string{"cmd": "lws"},
	files: map[string]map[string]string{
		"sigs.k8s.io/jobset": {
			"config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml": "jobset-crd.yaml",
			"config/components/webhook/manifests.yaml":                 "jobset-webhooks.yaml",
		},
		"sigs.k8s.io/lws": {
			"config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml": "lws-crd.yaml",
			"config/webhook/manifests.yaml":                                   "lws-webhooks.yaml",
		},
		"sigs.k8s.io/scheduler-plugins": {"config/crd/bases/scheduling.x-k8s.io_podgroups.yaml": "podgroup-crd.yaml"},
	},
}

// Workloads returns the directory with the controllers of JobSet and LeaderWorkerSet, the definitions of their resources
// and webhooks, and the definition of scheduling.x-k8s.io's PodGroup. It builds them when the cache has none.
func Workloads(ctx context.Context, p Progress) (string, error) { return workloads.obtain(ctx, p) }

// kubernetesFlags tell the programs their version, which they know from their release only.
func kubernetesFlags(goMod string) string {
	version := required(goMod, "k8s.io/kubernetes")
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	const at = "-X k8s.io/component-base/version."
	return fmt.Sprintf("%[1]sgitVersion=%[2]s %[1]sgitMajor=%[3]s %[1]sgitMinor=%[4]s %[1]sgitTreeState=clean", at, version, major, minor)
}

// nodePackages are what a Kubernetes node needs beside Kubernetes' programs.
var nodePackages = []string{"runc", "iproute2", "nftables", "mount", "procps"}

// nodeSuite is Debian's stable release.
const nodeSuite = "trixie"

// Node returns the directory of a Debian root file system for a Kubernetes
// node, building it when the cache has none. It takes root's rights to build.
func Node(ctx context.Context, p Progress) (string, error) {
	e := entry{name: "root-node", key: keyOf(append([]string{nodeSuite, slim}, nodePackages...)...)}
	dir, err := e.obtain(ctx, p, func(dir string) error { return buildNode(ctx, dir, p) })
	return filepath.Join(dir, "root"), err
}

func buildNode(ctx context.Context, dir string, p Progress) error {
	started := time.Now()
	m, err := rootsMirror(ctx, p)
	if err != nil {
		return err
	}
	p("root-node: installs %d packages and what they need from %s", len(nodePackages), nodeSuite)
	s := watch(p, "root-node: did %d of about %d steps of packages", 2*95, "Unpacking ", "Setting up ")
	defer s.stop()
	args := bootstrapArgs(release{suite: nodeSuite}, nodePackages, filepath.Join(dir, "root"), m)
	if err := (command{line: s.line}).run(ctx, "mmdebstrap", args...); err != nil {
		return fmt.Errorf("cannot install: %w", err)
	}
	p("root-node: done (%s)", since(started))
	return nil
}
