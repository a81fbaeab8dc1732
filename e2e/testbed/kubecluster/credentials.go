package kubecluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/fabric"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/node"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/pki"
)

// adminGroup may do everything.
const adminGroup = "system:masters"

// makePKI writes the keys and certificates of the control plane, and the file
// for kubectl on this host. It returns what each node knows the API by.
func (b *Bed) makePKI() ([]node.Settings, error) {
	authority, err := pki.New("slurmlet")
	if err != nil {
		return nil, err
	}
	server, err := authority.Server("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		fabric.Kubernetes, fabric.Gateway, "127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	admin, err := authority.Client("admin", adminGroup)
	if err != nil {
		return nil, err
	}
	accounts, err := pki.Key()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"authority.crt": authority.Certificate, "authority.key": authority.Key, "accounts.key": accounts,
		"apiserver.crt": server.Certificate, "apiserver.key": server.Key,
		"admin.crt": admin.Certificate, "admin.key": admin.Key,
	}
	if err := b.addClients(authority, files); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.dir, fabric.PKI, name), text, 0o600); err != nil {
			return nil, fmt.Errorf("cannot write credentials: %v", err)
		}
	}
	return b.nodeClients(authority)
}

func (b *Bed) addClients(authority *pki.Authority, files map[string][]byte) (err error) {
	for _, c := range []struct{ file, server, user, group string }{
		{"controller-manager.kubeconfig", fabric.API, "system:kube-controller-manager", ""},
		{"scheduler.kubeconfig", fabric.API, "system:kube-scheduler", ""},
		{"coredns.kubeconfig", fabric.API, "coredns", adminGroup},
		{adminFile, fmt.Sprintf("https://127.0.0.1:%d", b.settings.Port), "admin", adminGroup},
	} {
		if files[c.file], err = authority.Kubeconfig(c.server, c.user, strings.Fields(c.group)...); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bed) nodeClients(authority *pki.Authority) ([]node.Settings, error) {
	var all []node.Settings
	for _, name := range b.Nodes() {
		kubelet, err := authority.Kubeconfig(fabric.API, "system:node:"+name, "system:nodes")
		if err != nil {
			return nil, err
		}
		proxy, err := authority.Kubeconfig(fabric.API, "system:kube-proxy")
		if err != nil {
			return nil, err
		}
		all = append(all, node.Settings{Kubelet: kubelet, Proxy: proxy, Authority: authority.Certificate})
	}
	return all, nil
}

const adminFile = "admin.kubeconfig"

// Kubeconfig is the file for kubectl on this host.
func (b *Bed) Kubeconfig() string { return filepath.Join(b.dir, fabric.PKI, adminFile) }
