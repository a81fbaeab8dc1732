package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

const (
	// mostFiles and mostFileBytes bound a ConfigMap. Kubernetes itself allows 1 MiB.
	mostFiles     = 1000
	mostFileBytes = 1 << 20
	// mostFileName is Kubernetes' limit.
	mostFileName = 253
	// mostFormer bounds the versions that are told with it, and mostDigest a digest.
	mostFormer = 64
	mostDigest = 128
	// filesPause is the least time between two versions that a reader gets: one that changes all the time
	// costs five lines in a second.
	filesPause = 200 * time.Millisecond
)

// checkFiles refuses what no kubelet would deliver. nil is well.
func checkFiles(f *Files) error {
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

// EncodedFiles are Files whose Data is JSON already: whoever has it keeps it once.
type EncodedFiles struct {
	Name            string
	ResourceVersion uint64
	Former          []Version
	Data            json.RawMessage
}

// filesLine is a line of the stream, in parts.
type filesLine struct{ parts [][]byte }

// line is the one of the stream. Its data is f's.
func (f EncodedFiles) line() (*filesLine, error) {
	head, err := json.Marshal(Files{Name: f.Name, ResourceVersion: f.ResourceVersion, Former: f.Former})
	if err != nil {
		return nil, err
	}
	before, is := strings.CutSuffix(string(head), "null}") // Data is the last field
	if !is {
		return nil, errors.New("peers: Data is not the last field of Files")
	}
	return &filesLine{[][]byte{[]byte(`{"files":` + before), f.Data, []byte("}}\n")}}, nil
}

// SetFiles tells slurmctld's agents of a cluster the ConfigMap, or nothing from now on: nil is no change for
// agents that have it.
func (s *Server) SetFiles(name string, files *EncodedFiles) error {
	var line *filesLine
	if files != nil {
		var err error
		if line, err = files.line(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clusters[name]
	if c == nil && line == nil {
		return nil
	}
	if c == nil {
		c = s.cluster(name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = line
	if c.empty() {
		delete(s.clusters, name)
	}
	for _, r := range c.readers {
		if line != nil && r.Role == slurmctld {
			r.rouse()
		}
	}
	return nil
}

// slurmctld is the role whose agents read a ConfigMap.
const slurmctld = "slurmctld"

// filesFor are the parts of the line that a reader has not had. A reader comes here after pending.
func (c *cluster) filesFor(r *reader) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.Role != slurmctld || c.files == nil || c.files == r.files {
		return nil
	}
	if wait := time.Until(r.filesAt.Add(filesPause)); wait > 0 {
		if r.later == nil {
			r.later = time.AfterFunc(wait, r.rouse)
		} else {
			r.later.Reset(wait)
		}
		return nil
	}
	r.files, r.filesAt = c.files, time.Now()
	return c.files.parts
}
