package peerserver

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// filesPause is the least time between two versions that a reader gets: one that changes all the time costs five lines in
// a second.
const filesPause = 200 * time.Millisecond

// EncodedFiles are Files whose Data is JSON already: whoever has it keeps it once.
type EncodedFiles struct {
	Name            string
	ResourceVersion uint64
	Former          []wire.Version
	Data            json.RawMessage
}

// filesLine is a line of the stream, in parts.
type filesLine struct{ parts [][]byte }

// line is the one of the stream. Its data is f's.
func (f EncodedFiles) line() (*filesLine, error) {
	head, err := json.Marshal(wire.Files{Name: f.Name, ResourceVersion: f.ResourceVersion, Former: f.Former})
	if err != nil {
		return nil, err
	}
	before, is := strings.CutSuffix(string(head), "null}") // Data is the last field
	if !is {
		return nil, errors.New("peerserver: Data is not the last field of Files")
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
			r.wake()
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
			r.later = time.AfterFunc(wait, r.wake)
		} else {
			r.later.Reset(wait)
		}
		return nil
	}
	r.files, r.filesAt = c.files, time.Now()
	return c.files.parts
}
