package pagefacts

import (
	"bufio"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

// The agent and the page are the same program in the same pod, so gob serves: it leaves out what is
// zero, and a cluster of 100,000 jobs is written and read one record at a time.

// heading comes before the records, and says how many there are.
type heading struct {
	At               time.Time
	Cluster, Version string
	Readings         map[clusterview.Family]reading
	Faults           map[clusterview.Family]string
	Agent            Agent
	Conf             *reconfig.Status
	Followers        []string
	FollowersUnknown bool
	Nodes, Jobs      int
	Partitions       []clusterview.Partition
	Reservations     []clusterview.Reservation
	Licenses         []clusterview.License
}

type reading struct {
	At   time.Time
	Took time.Duration
}

// mostRecords is more than a cluster has.
const mostRecords = 1 << 22

// Write writes the facts.
func (f Facts) Write(to io.Writer) error {
	b := bufio.NewWriterSize(to, 1<<16)
	e := gob.NewEncoder(b)
	v := f.View
	h := heading{
		At: f.At, Cluster: v.Cluster, Version: v.Version, Readings: map[clusterview.Family]reading{},
		Faults: map[clusterview.Family]string{},
		Agent:  f.Agent, Conf: f.Conf, Followers: f.Followers, FollowersUnknown: f.FollowersUnknown,
		Nodes: len(v.Nodes), Jobs: v.Jobs.Len(), Partitions: v.Partitions, Reservations: v.Reservations, Licenses: v.Licenses,
	}
	for family, r := range v.Readings {
		h.Readings[family] = reading{r.At, r.Took}
		if r.Err != nil {
			h.Faults[family] = r.Err.Error()
		}
	}
	if err := e.Encode(h); err != nil {
		return fmt.Errorf("cannot write the facts: %w", err)
	}
	for i := range v.Nodes {
		if err := e.Encode(&v.Nodes[i]); err != nil {
			return fmt.Errorf("cannot write the nodes: %w", err)
		}
	}
	for job := range v.Jobs.All() {
		if err := e.Encode(job); err != nil {
			return fmt.Errorf("cannot write the jobs: %w", err)
		}
	}
	return b.Flush()
}

// Read reads what Write has written.
func Read(from io.Reader) (*Facts, error) {
	d := gob.NewDecoder(bufio.NewReaderSize(from, 1<<16))
	var h heading
	if err := d.Decode(&h); err != nil {
		return nil, fmt.Errorf("cannot read the facts: %w", err)
	}
	if h.Nodes < 0 || h.Nodes > mostRecords || h.Jobs < 0 || h.Jobs > mostRecords {
		return nil, errors.New("cannot read the facts: their counts are wrong")
	}
	t := texts{}
	v := &clusterview.View{
		Cluster: h.Cluster, Version: h.Version, Partitions: h.Partitions, Reservations: h.Reservations, Licenses: h.Licenses,
		Readings: map[clusterview.Family]clusterview.Reading{},
	}
	for family, r := range h.Readings {
		one := clusterview.Reading{At: r.At, Took: r.Took}
		if why := h.Faults[family]; why != "" {
			one.Err = errors.New(why)
		}
		v.Readings[family] = one
	}
	for range h.Nodes {
		var one slurm.Node
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("cannot read the nodes: %w", err)
		}
		t.node(&one)
		v.Nodes = append(v.Nodes, one)
	}
	var jobs []slurm.Job
	for range h.Jobs {
		var one slurm.Job
		if err := d.Decode(&one); err != nil {
			return nil, fmt.Errorf("cannot read the jobs: %w", err)
		}
		t.job(&one)
		jobs = append(jobs, one)
	}
	v.Jobs = clusterview.JobsOf(jobs...)
	return &Facts{At: h.At, View: v, Agent: h.Agent, Conf: h.Conf, Followers: h.Followers, FollowersUnknown: h.FollowersUnknown}, nil
}

// texts gives equal texts one place in memory.
type texts map[string]string

func (t texts) keep(all ...*string) {
	for _, s := range all {
		if kept, found := t[*s]; found {
			*s = kept
		} else {
			t[*s] = *s
		}
	}
}

func (t texts) list(all ...[]string) {
	for _, one := range all {
		for i := range one {
			t.keep(&one[i])
		}
	}
}

func (t texts) node(n *slurm.Node) {
	t.keep(&n.Reason, &n.ReasonUser, &n.Version, &n.Topology, &n.Comment)
	t.list(n.State, n.Partitions, n.Features, n.ActiveFeatures)
}

func (t texts) job(j *slurm.Job) {
	t.keep(&j.Name, &j.User, &j.Account, &j.QOS, &j.Reason, &j.Features, &j.Reservation, &j.Licenses)
	t.list(j.Partitions, j.State)
}
