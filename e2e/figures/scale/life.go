package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/process"
)

// A host is a process with many agents (agent.Run), which have a network namespace and an address in
// common. It takes orders from its standard input, and reports on its standard output, both in lines
// of JSON.

const (
	// hostVariable has the settings of a host.
	hostVariable = "SLURMLET_SCALE_HOST"
	// hostDir is where the agents of all hosts have their files, hostSpool is the spool directory of all
	// of them. It holds the copy of the configuration that their slurmds would have.
	hostDir, hostSpool = "/run/agents", "/run/agents/spool"
)

// hostSettings are what a host is told at its start.
type hostSettings struct {
	// Grace is the grace period of an agent, ShortGrace that of agents up to LastShort.
	Grace, ShortGrace time.Duration
	LastShort         int
	// Starters is how many agents start at the same time, Commands how many commands of Slurm's run at
	// the same time.
	Starters, Commands int
}

// order is for the agents from First to Last, as far as they are this host's.
type order struct {
	Do          string // start, reconfigure or terminate
	First, Last int
}

// report is what has happened to an agent.
type report struct {
	Agent int
	What  string // started, ready, announced, asked, direct, exited, warned or failed
	At    time.Time
	// Status is the exit status, Text the announced configuration's hash, the command, or the text.
	Status int    `json:",omitempty"`
	Text   string `json:",omitempty"`
}

// host is the inside of a host.
type host struct {
	hostSettings
	commands, starters chan struct{}

	lock   sync.Mutex
	agents map[int]*simulated
	out    *json.Encoder
}

// runHost never returns where this program is a host, and does nothing elsewhere.
func runHost() {
	text, is := os.LookupEnv(hostVariable)
	if !is {
		return
	}
	h := &host{agents: map[int]*simulated{}, out: json.NewEncoder(os.Stdout)}
	err := json.Unmarshal([]byte(text), &h.hostSettings)
	h.commands, h.starters = make(chan struct{}, h.Commands), make(chan struct{}, h.Starters)
	for lines := bufio.NewScanner(os.Stdin); err == nil && lines.Scan(); {
		var o order
		if err = json.Unmarshal(lines.Bytes(), &o); err == nil {
			err = h.obey(o)
		}
	}
	if err != nil {
		native.Progress("%v", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (h *host) obey(o order) error {
	for number := o.First; number <= o.Last; number++ {
		switch a := h.agent(number); {
		case o.Do == "start":
			go h.start(number)
		case a == nil:
		case o.Do == "reconfigure":
			go h.reconfigure(a)
		case o.Do == "terminate":
			a.signals <- unix.SIGTERM
		default:
			return fmt.Errorf("cannot obey %q", o.Do)
		}
	}
	return nil
}

func (h *host) agent(number int) *simulated {
	h.lock.Lock()
	defer h.lock.Unlock()
	return h.agents[number]
}

func (h *host) report(r report) {
	h.lock.Lock()
	defer h.lock.Unlock()
	_ = h.out.Encode(r) // the bench has gone, and this process goes with it
}

// simulated is an agent whose slurmd is only said to run.
type simulated struct {
	name    string
	number  int
	dir     string
	signals chan os.Signal
	ready   chan struct{}
	once    sync.Once
	// main is the process that slurmd is said to be. It is this program or the namespace's first one by
	// turns.
	main atomic.Int64
}

// environment is that of an agent. Its port is its own, because all of a host's agents have one address.
func (h *host) environment(a *simulated) []string {
	grace := h.Grace
	if a.number <= h.LastShort {
		grace = h.ShortGrace
	}
	return []string{
		"SLURMLET_SLURMCTLD=" + slurmctldName, "SLURMLET_NODE_NAME=" + a.name, "SLURMLET_CPU_LIMIT=1000", "SLURMLET_MEMORY_LIMIT=364Mi",
		"SLURMLET_CGROUP=off", "SLURMLET_SPOOL_DIR=" + hostSpool, "SLURMLET_RUN_DIR=" + a.dir, "SLURMLET_LISTEN=:0",
		"SLURMLET_LOG_LEVEL=debug", "SLURMLET_GRACE_PERIOD=" + grace.String(),
	}
}

// start runs an agent. The next one may start when this one is Ready, or over.
func (h *host) start(number int) {
	h.starters <- struct{}{}
	a := &simulated{name: agentName(number), number: number, dir: filepath.Join(hostDir, agentName(number)), signals: make(chan os.Signal, 1), ready: make(chan struct{})}
	h.lock.Lock()
	h.agents[number] = a
	h.lock.Unlock()
	h.report(report{Agent: number, What: "started", At: time.Now()})
	go func() {
		<-a.ready
		<-h.starters
	}()
	config, err := agent.FromEnv(agent.Slurmd, h.environment(a))
	status := 0
	if err == nil {
		status, err = agent.Run(context.Background(), agent.Options{
			Config: config, Version: "simulated", Root: "/", Environ: []string{"PATH=" + os.Getenv("PATH")}, Signals: a.signals,
			Table: process.NewPretence(func(c process.Command) { h.slurmd(a, c) }), Observe: func(n agent.Notice) { h.heed(a, n) }, Turn: h.turn(a),
		})
	}
	if err != nil {
		h.report(report{Agent: number, What: "failed", At: time.Now(), Text: err.Error()})
	}
	h.report(report{Agent: number, What: "exited", At: time.Now(), Status: status})
	h.lock.Lock()
	delete(h.agents, number)
	h.lock.Unlock()
	a.once.Do(func() { close(a.ready) })
}

// turn has all agents of a host run no more commands at a time than the machine can bear.
func (h *host) turn(a *simulated) func(context.Context) (func(), error) {
	return func(ctx context.Context) (func(), error) {
		select {
		case h.commands <- struct{}{}:
			h.report(report{Agent: a.number, What: "asked", At: time.Now()})
			return func() { <-h.commands }, nil
		case <-ctx.Done():
			h.report(report{Agent: a.number, What: "unasked", At: time.Now()})
			return nil, context.Cause(ctx)
		}
	}
}

// heed reports what an agent logs of the events that the bench waits for.
func (h *host) heed(a *simulated, n agent.Notice) {
	r := report{Agent: a.number, At: time.Now(), Text: n.Text}
	switch {
	case n.Source != agent.Source:
		return
	case n.Text == "state" && attribute(n, "state") == string(supervisor.Ready):
		r.What = "ready"
		a.once.Do(func() { close(a.ready) })
	case n.Text == "slurmctld's agent has announced a configuration":
		r.What, r.Text = "announced", attribute(n, "hash")
	case n.Text == "asks slurmctld itself":
		r.What, r.Text = "direct", attribute(n, "change")+": "+attribute(n, "error")
	case n.Level >= slog.LevelWarn:
		r.What, r.Text = "warned", strings.TrimSpace(n.Text+" "+attribute(n, "reason")+" "+attribute(n, "error"))
	default:
		return
	}
	h.report(r)
}

func attribute(n agent.Notice, name string) string {
	for _, one := range n.Attrs {
		if one.Key == name {
			return one.Value.String()
		}
	}
	return ""
}

// slurmd does what a slurmd does that was started: it registers with its Extra, and says READY.
func (h *host) slurmd(a *simulated, c process.Command) {
	a.main.Store(int64(os.Getpid()))
	extra := ""
	if at := slices.Index(c.Args, "--extra"); at >= 0 {
		extra = c.Args[at+1]
	}
	err := register(a.name, extra)
	if err == nil {
		err = a.notify("READY=1")
	}
	if err != nil {
		h.report(report{Agent: a.number, What: "failed", At: time.Now(), Text: err.Error()})
	}
}

// reconfigure does what a slurmd does that has got a configuration: another process takes over.
func (h *host) reconfigure(a *simulated) {
	next := 1
	if a.main.Load() == 1 {
		next = os.Getpid()
	}
	if err := a.notify(fmt.Sprintf("MAINPID=%d\nREADY=1", next)); err != nil {
		h.report(report{Agent: a.number, What: "failed", At: time.Now(), Text: err.Error()})
		return
	}
	a.main.Store(int64(next))
}

// notify tells the agent what its main process would (sd_notify(3)). root may speak in its name
// (unix(7), SCM_CREDENTIALS).
func (a *simulated) notify(text string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot notify the agent: %w", err)
	}
	defer unix.Close(fd)
	who := unix.UnixCredentials(&unix.Ucred{Pid: int32(a.main.Load())}) //nolint:gosec // a pid
	if err := unix.Sendmsg(fd, []byte(text), who, &unix.SockaddrUnix{Name: filepath.Join(a.dir, "notify.sock")}, 0); err != nil {
		return fmt.Errorf("cannot notify the agent: %w", err)
	}
	return nil
}

// register gives a record the Extra that slurmd registers. A registration would, too.
func register(name, extra string) error {
	out, err := exec.Command("/usr/bin/scontrol", "update", "nodename="+name, "extra="+extra).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot register %s: %w: %s", name, err, out)
	}
	return nil
}

// slurmctldName is slurmctld's address for the agents.
var slurmctldName = net.JoinHostPort("ctl", fmt.Sprint(slurmctldPort))

// agentName is the name of an agent's node.
func agentName(number int) string { return fmt.Sprintf("r%d", number) }
