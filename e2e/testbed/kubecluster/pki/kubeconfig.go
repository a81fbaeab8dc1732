package pki

import (
	"encoding/base64"
	"fmt"
)

// Kubeconfig is a file that lets a client at the cluster's API at server, an
// address with https://.
func (a *Authority) Kubeconfig(server, user string, groups ...string) ([]byte, error) {
	p, err := a.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	coded := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, kubeconfig, server, coded(a.Certificate), coded(p.Certificate), coded(p.Key)), nil
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: slurmlet
clusters:
- name: slurmlet
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: user
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: slurmlet
  context: {cluster: slurmlet, user: user}
`
