package node

import (
	"bytes"
	"encoding/json"
	"testing"
	"text/template"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	want := Settings{Name: "kube-1", Guest: true, Address: "10.89.0.11", Kubelet: []byte("a: 1\n"), CPUs: 2}
	require.NoError(t, want.Write(dir))
	got, err := Read(dir)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestFilesSayWhereTheNodeIs(t *testing.T) {
	all, err := template.ParseFS(files, "files/*")
	require.NoError(t, err)
	s := Settings{Name: "kube-1", Gateway: "10.89.0.1", Pods: "10.244.1.0/24"}
	text := func(name string) []byte {
		var b bytes.Buffer
		require.NoError(t, all.ExecuteTemplate(&b, name, s))
		return b.Bytes()
	}
	var kubelet struct {
		Kind       string
		ClusterDNS []string `yaml:"clusterDNS"`
	}
	require.NoError(t, yaml.Unmarshal(text("kubelet.yaml"), &kubelet))
	assert.Equal(t, []string{"10.89.0.1"}, kubelet.ClusterDNS)
	var proxy struct {
		HostnameOverride string `yaml:"hostnameOverride"`
	}
	require.NoError(t, yaml.Unmarshal(text("proxy.yaml"), &proxy))
	assert.Equal(t, "kube-1", proxy.HostnameOverride)
	assert.True(t, json.Valid(text("bridge.conflist")))
	assert.Contains(t, string(text("bridge.conflist")), `"subnet": "10.244.1.0/24"`)
}

func TestUnknownPrograms(t *testing.T) {
	_, err := programs{"kubelet": nil, "containerd": nil}.named("sshd")
	assert.EqualError(t, err, `no program "sshd" on a node; there are: containerd kubelet`)
}
