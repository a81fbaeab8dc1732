package wire

import (
	"errors"
	"fmt"
	"strings"
)

// Files are a ConfigMap's, as the kubelet will deliver them. They are one line of their own, after the
// first Snapshot.
type Files struct {
	Name string `json:"name"`
	// ResourceVersion grows with each change in Kubernetes.
	ResourceVersion uint64 `json:"resourceVersion"`
	// Former are the last versions before this one, by which a reader knows an older content.
	Former []Version         `json:"former,omitempty"`
	Data   map[string]string `json:"data"`
}

// Version is a content that a ConfigMap had. Digest is confset.TextsDigest's.
type Version struct {
	ResourceVersion uint64 `json:"resourceVersion"`
	Digest          string `json:"digest"`
}

const (
	// mostFiles and mostFileBytes bound a ConfigMap. Kubernetes itself allows 1 MiB.
	mostFiles     = 1000
	mostFileBytes = 1 << 20
	// mostFileName is Kubernetes' limit.
	mostFileName = 253
	// mostFormer bounds the versions that are told with it, and mostDigest a digest.
	mostFormer = 64
	mostDigest = 128
)

// Check refuses what no kubelet would deliver. nil is well.
func (f *Files) Check() error {
	if f == nil {
		return nil
	}
	size := 0
	for name, text := range f.Data {
		if !validFileName(name) {
			return fmt.Errorf("%.80q is no name of a file in a ConfigMap", name)
		}
		size += len(text)
	}
	switch {
	case f.Name == "" || len(f.Name) > mostFileName:
		return errors.New("it has no name, or one that is too long")
	case f.ResourceVersion == 0:
		return errors.New("it has no resourceVersion")
	case len(f.Data) > mostFiles:
		return fmt.Errorf("it has %d files, and %d are allowed", len(f.Data), mostFiles)
	case size > mostFileBytes:
		return fmt.Errorf("its files have %d bytes, and %d are allowed", size, mostFileBytes)
	case len(f.Former) > mostFormer:
		return fmt.Errorf("it has %d former versions, and %d are allowed", len(f.Former), mostFormer)
	}
	for _, one := range f.Former {
		if len(one.Digest) > mostDigest {
			return errors.New("the digest of a former version is too long")
		}
	}
	return nil
}

// validFileName is Kubernetes' rule for the keys of a ConfigMap: there is no way into another directory.
func validFileName(name string) bool {
	const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return name != "" && name != "." && !strings.HasPrefix(name, "..") && len(name) <= mostFileName && strings.Trim(name, alphanumeric+"-_.") == ""
}
