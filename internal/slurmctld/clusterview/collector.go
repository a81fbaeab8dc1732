package clusterview

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// Options are a Collector's.
type Options struct {
	// Stream runs one of Slurm's commands and has read take what it prints (slurm.Scontrol).
	Stream func(ctx context.Context, read func(io.Reader) error, program string, args ...string) error
	// Interval is the least time between two questions of a family.
	Interval time.Duration
	// Shares says that somebody wants to know the associations' shares.
	Shares bool
	// Only are the families that are asked for; nil: all but FamilySuspended.
	Only []Family
	// Timeout bounds each question. Slurm's commands try for MessageTimeout (slurm.conf(5)).
	Timeout func() time.Duration
	// Log is called when questions begin to fail, and when they succeed again.
	Log func(slog.Level, string, ...slog.Attr)
}

// wants says whether a family is asked for.
func (o Options) wants(f Family) bool {
	if o.Only != nil {
		return slices.Contains(o.Only, f)
	}
	return f != FamilySuspended && (f != FamilyShares || o.Shares)
}

// Env is what Slurm's commands need in their environment for a Collector: times in seconds since
// 1970, and lists of an array's tasks in full (squeue(1)).
var Env = []string{"SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0"}

// Collector asks slurmctld when somebody wants to know, all who want to know together, and never
// more often than once in an interval. It has no goroutine and no timer while nobody asks.
type Collector struct {
	o Options

	lock sync.Mutex
	view *View
	// asked is when a collection was begun last, took how long the last one took, and flight the one
	// that is under way.
	asked   time.Time
	took    time.Duration
	flight  chan struct{}
	failing bool
}

// New is a Collector that has asked nothing yet.
func New(o Options) *Collector {
	return &Collector{o: o, view: &View{Readings: map[Family]Reading{}}}
}

// Latest is what the last collection brought. It asks nothing, and has no readings before the first.
func (c *Collector) Latest() *View {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.view
}

// Fresh is the View that Get would return at once; nil where Get would wait.
func (c *Collector) Fresh() *View {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.flight != nil || c.due(0) {
		return nil
	}
	return c.view
}

// askingShare is a part of the time: a slow slurmctld is asked in at most a third of it.
const askingShare = 3

// due: the next collection may begin. The lock is held.
func (c *Collector) due(maxAge time.Duration) bool {
	return c.asked.IsZero() || time.Since(c.asked) >= max(maxAge, c.o.Interval, askingShare*c.took)
}

// Get returns a View of a collection that was begun at most maxAge ago, or an interval ago where that
// is longer; where slurmctld is slow, up to three times as long ago as the collection took. It waits
// for it until ctx ends, and returns the latest View then.
func (c *Collector) Get(ctx context.Context, maxAge time.Duration) *View {
	c.lock.Lock()
	if flight := c.startCollection(maxAge); flight != nil {
		c.lock.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
		}
		c.lock.Lock()
	}
	defer c.lock.Unlock()
	return c.view
}

// startCollection returns the collection to wait for; nil where the View is young enough. The lock is held.
func (c *Collector) startCollection(maxAge time.Duration) chan struct{} {
	if c.flight == nil && c.due(maxAge) {
		c.asked, c.flight = time.Now(), make(chan struct{})
		go c.collect(c.view, c.flight)
	}
	return c.flight
}

// garbage is how much there may be, in percent of what is in use, while an answer is read. With Go's
// 100, the process of an agent with 100,000 jobs would be three times as large.
const garbage = 10

// collect asks for all families, one after the other. When slurmctld does not answer one question,
// it is asked no other.
func (c *Collector) collect(old *View, flight chan struct{}) {
	if c.o.Only == nil { // a part leaves little behind
		defer debug.FreeOSMemory()
		defer debug.SetGCPercent(debug.SetGCPercent(garbage))
	}
	v := *old
	v.Readings = maps.Clone(old.Readings)
	var silent error
	for _, q := range questions {
		if !c.o.wants(q.family) {
			continue
		}
		reading := v.Readings[q.family]
		began := time.Now()
		err := silent
		if err == nil {
			err = c.ask(q, &v)
		}
		if reading.Err = err; err == nil {
			reading.At, reading.Took = began, time.Since(began)
		}
		if errors.Is(err, slurm.ErrUnreachable) {
			silent = err
		}
		v.Readings[q.family] = reading
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.view, c.flight, c.took = &v, nil, time.Since(c.asked)
	close(flight)
	c.report(&v)
}

// ask puts one question to slurmctld. A panic becomes an error, because the daemons depend on this process.
func (c *Collector) ask(q question, v *View) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("slurmlet failed as it read the answer: %v", fault)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), c.o.Timeout())
	defer cancel()
	return q.ask(ctx, c.o, v)
}

// report logs the first of several failures in a row, and their end.
func (c *Collector) report(v *View) {
	var failed []slog.Attr
	for _, family := range slices.Sorted(maps.Keys(v.Readings)) {
		if err := v.Readings[family].Err; err != nil {
			failed = append(failed, slog.String(string(family), err.Error()))
		}
	}
	switch {
	case len(failed) > 0 && !c.failing:
		c.o.Log(slog.LevelWarn, "cannot ask slurmctld about the cluster; the last values stay", failed...)
	case len(failed) == 0 && c.failing:
		c.o.Log(slog.LevelInfo, "slurmctld answers questions about the cluster again")
	}
	c.failing = len(failed) > 0
}

// question brings a family.
type question struct {
	family Family
	ask    func(context.Context, Options, *View) error
}

// questions are asked in this order: the cheapest first, which shows whether slurmctld answers.
var questions = []question{
	{FamilyScheduler, func(ctx context.Context, o Options, v *View) error {
		return o.Stream(ctx, func(from io.Reader) error {
			s, cluster, version, err := readScheduler(from)
			if err == nil {
				v.Scheduler, v.Cluster, v.Version = s, cluster, version
			}
			return err
		}, "sdiag", "--json")
	}},
	listOf(FamilyPartitions, readPartitions, func(v *View, all []Partition) { v.Partitions = all }, "scontrol",
		"--all", "--oneliner", "show", "partitions"),
	listOf(FamilyReservations, readReservations, func(v *View, all []Reservation) { v.Reservations = all },
		"scontrol", "--oneliner", "show", "reservations"),
	listOf(FamilyLicenses, readLicenses, func(v *View, all []License) { v.Licenses = all }, "scontrol", "--oneliner", "show", "licenses"),
	listOf(FamilyShares, readShares, func(v *View, all []Share) { v.Shares = all }, "sshare", "--all", "--noheader",
		"--parsable2", "--format="+strings.Join(shareFields, ",")),
	listOf(FamilyNodes, readNodes, func(v *View, all []slurm.Node) { v.Nodes = all }, "scontrol", "--all", "--detail",
		"--future", "--oneliner", "show", "nodes"),
	{FamilyJobs, askJobs},
	{FamilySuspended, askSuspended},
}

// listOf is a question whose answer is a list. The list counts only when the command has succeeded.
func listOf[T any](family Family, read func(io.Reader) ([]T, error), set func(*View, []T), program string, args ...string) question {
	return question{family, func(ctx context.Context, o Options, v *View) error {
		var all []T
		err := o.Stream(ctx, func(from io.Reader) (err error) {
			all, err = read(from)
			return err
		}, program, args...)
		if err == nil {
			set(v, all)
		}
		return err
	}}
}

// askJobs asks squeue, which shows one word for a job's state: the base state, or one of the flags.
// It is asked for the whole state of the jobs with a flag.
func askJobs(ctx context.Context, o Options, v *View) error {
	end := make([]byte, 8)
	_, _ = rand.Read(end) // it never fails
	mark := "\x1f" + hex.EncodeToString(end)
	var jobs *packer
	err := o.Stream(ctx, func(from io.Reader) (err error) {
		jobs, err = readJobs(from, mark)
		return err
	}, "squeue", "--noheader", "--all", "--local", "--states=all", "--Format="+jobFormat(mark))
	if err != nil {
		return err
	}
	if err := settle(ctx, o, jobs); err != nil {
		return err
	}
	v.Jobs = jobs.jobs
	return nil
}

// mostNamed is how many jobs squeue is asked for by their numbers. Of more, it is asked for all.
const mostNamed = 1000

func settle(ctx context.Context, o Options, jobs *packer) error {
	flagged := jobs.flagged()
	if len(flagged) == 0 {
		return nil
	}
	args := []string{"--local", "--states=all", "--only-job-state", "--json"}
	if len(flagged) <= mostNamed {
		var ids []string
		for _, id := range flagged {
			ids = append(ids, strconv.FormatInt(id, 10))
		}
		args = append(args, "--jobs="+strings.Join(ids, ","))
	}
	return o.Stream(ctx, func(from io.Reader) error {
		states, err := readStates(from)
		if err == nil {
			jobs.settle(states)
		}
		return err
	}, "squeue", args...)
}

// askSuspended asks for the states of all jobs, which costs slurmctld little, and for the nodes of those
// that are suspended.
func askSuspended(ctx context.Context, o Options, v *View) error {
	var ids []string
	err := o.Stream(ctx, func(from io.Reader) (err error) {
		ids, err = readIDs(from)
		return err
	}, "squeue", "--noheader", "--local", "--states=SUSPENDED", "--only-job-state")
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		v.Suspended = nil
		return nil
	}
	args := []string{"--noheader", "--all", "--local", "--states=SUSPENDED", "--format=%N"}
	if len(ids) <= mostNamed {
		args = append(args, "--jobs="+strings.Join(ids, ","))
	}
	var held map[string]bool
	err = o.Stream(ctx, func(from io.Reader) (err error) {
		held, err = readHosts(from)
		return err
	}, "squeue", args...)
	if err == nil {
		v.Suspended = held
	}
	return err
}

// readIDs reads lines with a job and its state: "7 S", "5_2 S" of an array, "69+0 S" of a heterogeneous job.
func readIDs(from io.Reader) (ids []string, err error) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 {
			continue
		}
		id := fields[0][:len(fields[0])-len(strings.TrimLeft(fields[0], "0123456789"))]
		if id == "" {
			return nil, fmt.Errorf("cannot read the job %q", fields[0])
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), lines.Err()
}

// readHosts reads lines with a host list each.
func readHosts(from io.Reader) (map[string]bool, error) {
	names := map[string]bool{}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestColumn)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		list, err := hostlist.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("cannot read the nodes %q: %w", shorten(text), err)
		}
		for name := range list.All() {
			names[name] = true
		}
	}
	return names, lines.Err()
}
