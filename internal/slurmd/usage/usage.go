// Package usage measures what the processes of slurmd's pod use, as metrics for Prometheus.
package usage

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/exposition"
	"github.com/slurmlet/slurmlet/internal/link/publichttp"
	"github.com/slurmlet/slurmlet/internal/slurmd/devices"
)

const (
	// usageFresh is how long one reading of the machine serves everybody who asks. One that took
	// long serves for ten times as long, up to longestFresh: no number of scrapes keeps a CPU busy.
	usageFresh   = time.Second
	longestFresh = 10 * time.Second
	// usagePatience is after how long an answer does without the reading. Prometheus waits for 10 s.
	// The agent shares the container's CPU quota with the jobs, so a reading may take a second.
	usagePatience = 5 * time.Second
	// MostWaiting is how many strangers may wait for a reading.
	MostWaiting = 64
	// MostJobMetrics bounds SLURMLET_JOB_METRICS: 512 jobs have 1 MB of metrics.
	MostJobMetrics = 512
)

// Options say what is read.
type Options struct {
	// Machine reads in the container's cgroup namespace, Delegation is what Slurm has.
	Machine    cgroup.FS
	Delegation cgroup.Delegation
	// MostJobs is how many jobs have metrics of their own.
	MostJobs int
	// Root is where the machine's file system begins, GPUs are the container's.
	Root string
	GPUs []devices.GPU
	// WriteStatus writes the agent's other metrics, which follow.
	WriteStatus func(io.Writer) error
	Report      func(error)
}

// Usage measures what the processes of this node use. It reads the machine only when somebody asks,
// and in a goroutine of its own: the kernel may take its time.
type Usage struct {
	read        func() []byte
	writeStatus func(io.Writer) error
	report      func(error)

	lock    sync.Mutex
	port    *publichttp.Server // nil as long as nobody has asked there
	text    []byte             // nobody changes it
	until   time.Time
	began   time.Time
	reading chan struct{} // closed when the reading under way has ended; nil if there is none
}

// ask returns the metrics if they are fresh, or what is closed when they will be. Neither is there
// if the kernel does not answer in time.
func (u *Usage) ask() (text []byte, ready <-chan struct{}) {
	u.lock.Lock()
	defer u.lock.Unlock()
	now := time.Now()
	switch {
	case u.reading != nil && now.Sub(u.began) >= usagePatience:
		return nil, nil
	case u.reading != nil:
		return nil, u.reading
	case now.Before(u.until):
		return u.text, nil
	}
	u.began, u.reading = now, make(chan struct{})
	go u.run()
	return nil, u.reading
}

func (u *Usage) run() {
	impatient := time.AfterFunc(usagePatience, u.answerAll)
	defer impatient.Stop()
	text := u.readAnyway()
	u.lock.Lock()
	now := time.Now()
	u.text, u.until = text, now.Add(min(max(usageFresh, 10*now.Sub(u.began)), longestFresh))
	close(u.reading)
	u.reading = nil
	u.lock.Unlock()
	u.answerAll()
}

// readAnyway reads, and reports a panic in place of passing it on: this is the process that all others depend on.
func (u *Usage) readAnyway() (text []byte) {
	defer func() {
		if fault := recover(); fault != nil {
			u.report(fmt.Errorf("cannot read what the node's processes use: %v", fault))
		}
	}()
	return u.read()
}

// forUsage is the tag of those that wait for a reading.
type forUsage struct{}

func (u *Usage) setPort(port *publichttp.Server) {
	u.lock.Lock()
	defer u.lock.Unlock()
	u.port = port
}

// answerAll answers those that wait on the port: a reading has ended, or takes too long.
func (u *Usage) answerAll() {
	u.lock.Lock()
	port := u.port
	u.lock.Unlock()
	if port == nil {
		return
	}
	port.Do(func() {
		port.Answer(func(tag any, w http.ResponseWriter) bool {
			_, ours := tag.(forUsage)
			return ours && u.write(w) == nil
		})
	})
}

// ServePort answers strangers on the agent's port, and lets nobody wait on the port's goroutine.
func (u *Usage) ServePort(w http.ResponseWriter, _ *http.Request) {
	u.setPort(publichttp.ServerOf(w))
	if u.write(w) != nil {
		publichttp.Wait(w, forUsage{})
	}
}

// write answers, unless there is a reading to wait for.
func (u *Usage) write(w http.ResponseWriter) (wait <-chan struct{}) {
	text, wait := u.ask()
	if wait != nil {
		return wait
	}
	w.Header().Set("Content-Type", exposition.ContentType)
	publichttp.Share(w, text)
	_ = u.writeStatus(w) // the reader has gone
	return nil
}

// ServeSocket answers on the agent's socket, where each request has a goroutine of its own to wait in.
func (u *Usage) ServeSocket(w http.ResponseWriter, r *http.Request) {
	for {
		wait := u.write(w)
		if wait == nil {
			return
		}
		select {
		case <-wait:
		case <-time.After(usagePatience):
		case <-r.Context().Done():
			return
		}
	}
}

// nodeReader reads what the processes of this node use. Only one goroutine at a time uses it.
type nodeReader struct {
	machine                                 cgroup.FS
	delegation                              cgroup.Delegation
	reader                                  *cgroup.UsageReader
	jobsMeter, daemonsMeter, containerMeter *cgroup.Meter
	most                                    int
	devices                                 devices.FS
	gpus                                    []devices.GPU
}

// New is nil where there is nothing to read: the jobs have no cgroups of Slurm's below the
// container's, or the machine has no cgroup v2.
func New(o Options) *Usage {
	if o.Delegation.Steps == "" {
		return nil
	}
	if o.MostJobs > 0 {
		o.Machine.CountJobs(o.Delegation)
	}
	return &Usage{read: newReader(o).text, writeStatus: o.WriteStatus, report: o.Report}
}

func newReader(o Options) *nodeReader {
	r := o.Machine.NewUsageReader()
	return &nodeReader{
		machine: o.Machine, delegation: o.Delegation, reader: r, jobsMeter: r.NewMeter(), daemonsMeter: r.NewMeter(),
		containerMeter: r.NewMeter(),
		most:           o.MostJobs, devices: devices.NewFS(o.Root), gpus: o.GPUs,
	}
}

func (n *nodeReader) text() []byte {
	u := n.read()
	var text bytes.Buffer
	u.write(&text)
	return text.Bytes()
}

// nodeUsage has the values of one reading.
type nodeUsage struct {
	began time.Time
	took  time.Duration
	// allJobs are all of them together, daemons the agent, slurmd and what they run.
	allJobs, daemons, container *cgroup.Usage
	// each is empty unless it is asked for. count is how many jobs there are.
	each      []cgroup.JobUsage
	most      int
	count     int
	gpuUsages []gpuUsage
}

type gpuUsage struct {
	devices.GPU
	present bool
	memory  devices.Memory
}

// read leaves out what cannot be read.
func (n *nodeReader) read() nodeUsage {
	u := nodeUsage{began: time.Now(), most: n.most, count: -1}
	u.allJobs, u.container = metered(n.jobsMeter, n.delegation.Steps), metered(n.containerMeter, n.delegation.Base)
	if leaf, err := n.machine.OwnLeaf(n.delegation); err == nil {
		u.daemons = metered(n.daemonsMeter, leaf)
	}
	if each, count, err := n.reader.ReadJobs(n.delegation.Steps, n.most); err == nil {
		u.each, u.count = each, count
	}
	for _, gpu := range n.gpus {
		u.gpuUsages = append(u.gpuUsages, gpuUsage{gpu, n.devices.Present(gpu), n.devices.Memory(gpu)})
	}
	u.took = time.Since(u.began)
	return u
}

func metered(m *cgroup.Meter, dir string) *cgroup.Usage {
	u, err := m.Read(dir)
	if err != nil {
		return nil
	}
	return &u
}
