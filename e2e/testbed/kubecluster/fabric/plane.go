package fabric

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/daemon"
)

// plane is the control plane. Its programs are as a kubeadm cluster has them,
// but for etcd's care for a disk.
type plane struct {
	dir      string // the bed's
	programs string
	dns      *daemon.Daemon
}

func newPlane(dir, programs string) plane {
	dns := &daemon.Daemon{Name: "coredns", Args: []string{"-conf", filepath.Join(dir, "Corefile")}}
	return plane{dir, programs, dns}
}

// start starts etcd and the API server, and when that is ready the others.
func (p plane) start() error {
	if err := shareVolumes(p.dir); err != nil {
		return err
	}
	corefile := fmt.Sprintf(corefile, Gateway, p.pki("coredns.kubeconfig"))
	if err := os.WriteFile(filepath.Join(p.dir, "Corefile"), []byte(corefile), 0o644); err != nil {
		return fmt.Errorf("cannot configure CoreDNS: %v", err)
	}
	if err := p.run(p.etcd(), p.apiserver()); err != nil {
		return err
	}
	if err := p.awaitAPI(); err != nil {
		return err
	}
	return p.run(p.controllerManager(), p.scheduler(), p.dns)
}

func (p plane) run(all ...*daemon.Daemon) error {
	for _, d := range all {
		d.Path, d.Logs = filepath.Join(p.programs, d.Name), filepath.Join(p.dir, Logs)
		if err := d.Start(); err != nil {
			return err
		}
		go func() {
			<-d.Ended()
			say("%s has ended: see its log", d.Name)
		}()
	}
	return nil
}

func (p plane) pki(name string) string { return filepath.Join(p.dir, PKI, name) }

const (
	etcdClients = "http://127.0.0.1:2379"
	etcdPeers   = "http://127.0.0.1:2380"
)

func (p plane) etcd() *daemon.Daemon {
	return &daemon.Daemon{Name: "etcd", Env: []string{daemon.RareGC}, Args: []string{
		"--data-dir", filepath.Join(p.dir, "etcd"), "--unsafe-no-fsync", "--log-level", "warn",
		"--listen-client-urls", etcdClients, "--advertise-client-urls", etcdClients,
		"--listen-peer-urls", etcdPeers, "--initial-advertise-peer-urls", etcdPeers, "--initial-cluster", "default=" + etcdPeers,
	}}
}

func (p plane) apiserver() *daemon.Daemon {
	return &daemon.Daemon{Name: "kube-apiserver", Env: []string{daemon.RareGC}, Args: []string{
		"--etcd-servers", etcdClients,
		"--bind-address", Gateway, "--advertise-address", Gateway, "--secure-port", fmt.Sprint(apiPort),
		"--tls-cert-file", p.pki("apiserver.crt"), "--tls-private-key-file", p.pki("apiserver.key"),
		"--client-ca-file", p.pki("authority.crt"),
		"--requestheader-client-ca-file", p.pki("authority.crt"), "--requestheader-allowed-names", "front-proxy-client",
		"--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction",
		"--kubelet-client-certificate", p.pki("admin.crt"), "--kubelet-client-key", p.pki("admin.key"), "--kubelet-preferred-address-types", "InternalIP",
		"--service-cluster-ip-range", Services, "--allow-privileged",
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", p.pki("accounts.key"), "--service-account-signing-key-file", p.pki("accounts.key"),
		// There is no kube-proxy where the API server is, and it calls webhooks.
		"--enable-aggregator-routing",
	}}
}

func (p plane) controllerManager() *daemon.Daemon {
	return &daemon.Daemon{Name: "kube-controller-manager", Args: p.client("controller-manager.kubeconfig",
		"--service-account-private-key-file", p.pki("accounts.key"), "--root-ca-file", p.pki("authority.crt"), "--use-service-account-credentials",
		"--cluster-signing-cert-file", p.pki("authority.crt"), "--cluster-signing-key-file", p.pki("authority.key"),
		"--enable-hostpath-provisioner",
	)}
}

func (p plane) scheduler() *daemon.Daemon {
	return &daemon.Daemon{Name: "kube-scheduler", Args: p.client("scheduler.kubeconfig")}
}

// client are the arguments of a controller that is the only one of its kind.
func (p plane) client(kubeconfig string, more ...string) []string {
	file := p.pki(kubeconfig)
	return append([]string{
		"--kubeconfig", file, "--authentication-kubeconfig", file, "--authorization-kubeconfig", file,
		"--bind-address", "127.0.0.1", "--leader-elect=false", "--cert-dir", filepath.Join(p.dir, PKI),
	}, more...)
}

// dnsGrace is how long CoreDNS may take to end.
const dnsGrace = 10 * time.Second

// answer has CoreDNS serve, or nobody.
func (p plane) answer(up bool) error {
	if up {
		return p.run(p.dns)
	}
	return p.dns.Stop(dnsGrace)
}

// corefile is a usual one, but for other names than the cluster's, which nobody
// here can tell. Like many, unlike kubeadm's, it caches the cluster's own names,
// and that they do not exist.
var corefile = strings.TrimLeft(`
.:53 {
	bind %s
	errors
	kubernetes cluster.local in-addr.arpa {
		kubeconfig %s slurmlet
		pods insecure
		ttl 30
	}
	cache 30
}
`, "\n")
