package webpage

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
)

//go:embed page.html style.css page.js icon.svg
var files embed.FS

// pageTemplate is parsed when somebody wants a page.
var pageTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("page.html").ParseFS(files, "page.html"))
})

// Page is what page.html shows. A Page for strangers is made without names, so that no mistake in
// the template can show one.
type Page struct {
	// Version is another one for each change.
	Version      int
	Title, Slurm string
	// Named: the reader may know names.
	Named bool
	At    Moment
	// Fault is why the facts are old or missing, and Stale names families that are.
	Fault string
	Stale []string
	// Seconds is how often a page without a script is loaded anew.
	Seconds int

	Tiles       []Tile
	NodeBar     Bar
	MapSize     string
	Groups      []Group
	Legend      []*Condition
	Reasons     []Reason
	Waiting     string
	JobStates   []Counted
	Jobs        *JobTable
	Partitions  []PartitionRow
	Attention   []Attention
	Unshown     int // nodes that Attention leaves out
	Troubled    string
	Reserved    []ReservationRow
	Licenses    []LicenseRow
	Conf        *Conf
	Agent       *AgentRow
	Agents      Agents
	NothingRead bool
}

// Tile is one figure at the top.
type Tile struct {
	Name, Value, Of, Note string
	Share                 int // in percent; -1: no bar
}

// Counted is a state and how many jobs have it.
type Counted struct{ Name, Class, Jobs, Address string }

// PartitionRow is a partition.
type PartitionRow struct {
	Name, State      string
	Default          bool
	Nodes            string
	Bar              Bar
	CPUs             string
	Share            int
	Running, Waiting string
	Address          string
}

// ReservationRow is a reservation.
type ReservationRow struct {
	Name, State, Nodes, Where, Flags string
	Start, End                       Moment
}

// LicenseRow is a license.
type LicenseRow struct {
	Name, Used, Total, Reserved string
	Share                       int
}

// Conf is slurmctld's configuration and what became of its edits, the newest first.
type Conf struct {
	Live, Doing, Sources string
	Refused              []string
	RefusedSince         Moment
	Faults               []string
	Missed               string
	Edits                []EditRow
	Taken, Rejected      string
}

// EditRow is an edit.
type EditRow struct {
	At                   Moment
	Outcome, Class, Mark string
	Hash, Files, Result  string
	Why                  []string
}

// AgentRow is slurmctld's agent.
type AgentRow struct {
	Version, State, Doing, Reason string
	Since                         Moment
	Restarts                      int
}

// Agents says which agents slurmctld's agent hears of.
type Agents struct {
	Followers, Nodes, Others string
	Missing                  []string
	More                     int
	Unknown                  bool
}

const (
	// mostMissing is how many nodes without an agent are named.
	mostMissing = 60
	// reloadSeconds is for browsers without a script.
	reloadSeconds = 30
)

// newPage is for one reader.
func (c *cluster) newPage(named bool, f Filter) *Page {
	p := &Page{
		Title: plain(c.view.Cluster, 60), Slurm: plain(c.view.Version, 20), Named: named, At: moment(c.now, c.now), Seconds: reloadSeconds,
		NodeBar: c.nodes.bar(), MapSize: mapSize(len(c.view.Nodes)), Groups: groups(c.view.Nodes, named),
		Reasons: reasons(c.whyWaiting, named), Waiting: count(c.waiting), Tiles: c.tiles(),
		JobStates: c.jobStates(named), Partitions: c.partitionRows(named),
	}
	for _, one := range conditions {
		if c.nodes[one] > 0 {
			p.Legend = append(p.Legend, one)
		}
	}
	for family, r := range c.view.Readings {
		if r.Err != nil {
			text := string(family) + " of " + moment(r.At, c.now).Text
			if r.At.IsZero() {
				text = string(family) + ", never read"
			}
			p.Stale = append(p.Stale, text)
		}
	}
	slices.Sort(p.Stale)
	p.NothingRead = len(c.view.Readings) == 0
	troubled := c.nodes[draining] + c.nodes[drained] + c.nodes[down] + c.nodes[unknown]
	p.Troubled = count(troubled)
	p.Agents = c.agents(named)
	if !named {
		return p
	}
	table := c.jobTable(f)
	p.Jobs = &table
	p.Attention = c.troubled
	p.Unshown = troubled - len(p.Attention)
	p.Reserved, p.Licenses = c.reservations(), c.licenses()
	p.Conf = confOf(c.facts.Conf, c.now)
	a := c.facts.Agent
	p.Agent = &AgentRow{
		plain(a.Version, 60), plain(a.State, 20), plain(a.Doing, mostText), plain(a.Reason, mostText),
		moment(a.Since, c.now), a.Restarts,
	}
	return p
}

func share(part, whole int64) int {
	if whole <= 0 {
		return 0
	}
	return int(min(100, max(0, 100*part/whole)))
}

func (c *cluster) tiles() []Tile {
	works := c.nodes[allocated] + c.nodes[mixed] + c.nodes[idle] + c.nodes[inReservation]
	total := len(c.view.Nodes)
	u := c.running
	tiles := []Tile{
		{"Nodes in service", count(works), count(total), c.nodeNote(), share(int64(works), int64(total))},
		{"CPUs in use", count(int(u.cpusAlloc)), count(int(u.cpus)), "", share(u.cpusAlloc, u.cpus)},
	}
	if u.gpus > 0 {
		tiles = append(tiles, Tile{"GPUs in use", count(int(u.gpusAlloc)), count(int(u.gpus)), "", share(u.gpusAlloc, u.gpus)})
	}
	note := ""
	if c.held > 0 {
		note = count(c.held) + " held"
	}
	if c.longest > 0 {
		note = strings.TrimPrefix(note+", longest "+span(c.longest), ", ")
	}
	return append(tiles,
		Tile{"Memory in use", size(u.memoryAlloc), size(u.memory), "", share(u.memoryAlloc, u.memory)},
		Tile{"Jobs running", count(c.jobs["RUNNING"]), "", "", -1},
		Tile{"Jobs waiting", count(c.waiting), "", note, -1},
	)
}

func (c *cluster) nodeNote() string {
	var words []string
	for _, one := range []*Condition{down, drained, draining, off} {
		if n := c.nodes[one]; n > 0 {
			words = append(words, count(n)+" "+one.Word)
		}
	}
	return strings.Join(words, ", ")
}

func (c *cluster) jobStates(named bool) []Counted {
	var all []Counted
	for _, state := range c.states {
		one := Counted{Name: plain(strings.ToLower(state), 30), Class: "s-" + jobClass(state), Jobs: count(c.jobs[state])}
		if named {
			one.Address = Filter{State: state}.address(1)
		}
		all = append(all, one)
	}
	return all
}

func (c *cluster) partitionRows(named bool) []PartitionRow {
	var all []PartitionRow
	for i := range c.view.Partitions {
		p := &c.view.Partitions[i]
		have := c.byPartition[p.Name]
		row := PartitionRow{
			Name: plain(p.Name, 60), State: plain(strings.ToLower(p.State), 20), Default: p.Default,
			Nodes: count(p.Nodes), Bar: have.nodes.bar(),
			CPUs: count(have.cpusAlloc) + " of " + count(have.cpus), Share: share(int64(have.cpusAlloc), int64(have.cpus)),
			Running: count(have.running), Waiting: count(have.pending),
		}
		if named {
			row.Address = Filter{Partition: p.Name}.address(1)
		}
		all = append(all, row)
	}
	return all
}

func (c *cluster) reservations() []ReservationRow {
	var all []ReservationRow
	for i := range c.view.Reservations[:min(len(c.view.Reservations), mostAttention)] {
		r := &c.view.Reservations[i]
		state := "active"
		switch {
		case r.Start.Time().After(c.now):
			state = "to come"
		case !r.End.IsZero() && r.End.Time().Before(c.now):
			state = "over"
		}
		all = append(all, ReservationRow{
			plain(r.Name, 60), state, count(r.Nodes), plain(r.NodeList, 60), plain(strings.ToLower(strings.Join(r.Flags, ", ")), 60),
			moment(r.Start.Time(), c.now), moment(r.End.Time(), c.now),
		})
	}
	return all
}

func (c *cluster) licenses() []LicenseRow {
	var all []LicenseRow
	for i := range c.view.Licenses[:min(len(c.view.Licenses), mostAttention)] {
		l := &c.view.Licenses[i]
		all = append(all, LicenseRow{
			plain(l.Name, 60), count(l.Used), count(l.Total), count(l.Reserved),
			share(int64(l.Used), int64(l.Total)),
		})
	}
	return all
}

func confOf(s *reconfig.Status, now time.Time) *Conf {
	if s == nil {
		return nil
	}
	c := &Conf{
		Live: plain(s.Live, 12), Doing: plain(s.Doing, mostText), Sources: plain(strings.Join(s.Sources, ", "), mostText),
		Taken: count(s.Reloads.Taken), Rejected: count(s.Reloads.Refused + s.Reloads.RolledBack),
	}
	if s.Refused != nil {
		c.RefusedSince = moment(s.Refused.Since, now)
		c.Refused = lines(s.Refused.Why)
	}
	c.Faults = lines(s.Faults)
	if n := len(s.Missed); n > 0 {
		c.Missed = plain(strings.Join(s.Missed[:min(n, 10)], ", "), mostText)
		if n > 10 {
			c.Missed += " and " + count(n-10) + " more"
		}
	}
	for _, e := range slices.Backward(s.History) {
		c.Edits = append(c.Edits, editRow(e, now))
	}
	return c
}

func editRow(e reconfig.Edit, now time.Time) EditRow {
	row := EditRow{
		At: moment(e.At, now), Outcome: string(e.Outcome), Hash: plain(e.Hash, 12),
		Files: plain(strings.Join(e.Files, ", "), mostText), Why: lines(e.Why),
	}
	switch e.Outcome {
	case reconfig.OutcomeLive, reconfig.OutcomeStarted:
		row.Class, row.Mark = "good", "✓"
	case reconfig.OutcomeRefused:
		row.Class, row.Mark = "bad", "✕"
	case reconfig.OutcomeRolledBack:
		row.Class, row.Mark = "warn", "↩"
	}
	if e.Outcome == reconfig.OutcomeLive {
		row.Result = count(e.Nodes) + " nodes in " + strconv.FormatFloat(e.Seconds, 'f', 1, 64) + " s"
	}
	return row
}

// lines are texts of the agent's and of Slurm's.
func lines(texts []string) []string {
	const most = 10
	var all []string
	for _, text := range texts[:min(len(texts), most)] {
		all = append(all, plain(text, 2*mostText))
	}
	return all
}

func (c *cluster) agents(named bool) Agents {
	if c.facts.FollowersUnknown {
		return Agents{Unknown: true}
	}
	missing, others := c.unfollowed()
	a := Agents{Followers: count(len(c.view.Nodes) - len(missing)), Nodes: count(len(c.view.Nodes)), Others: count(others)}
	if named {
		a.More = max(0, len(missing)-mostMissing)
		for _, name := range missing[:min(len(missing), mostMissing)] {
			a.Missing = append(a.Missing, plain(name, mostText))
		}
	}
	return a
}

// rendered is a page as it goes over the network.
type rendered struct{ plain, packed []byte }

func (p *Page) render() (*rendered, error) {
	var b bytes.Buffer
	if err := pageTemplate().Execute(&b, p); err != nil {
		return nil, fmt.Errorf("cannot make the page: %w", err)
	}
	return pack(b.Bytes())
}

func pack(text []byte) (*rendered, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &rendered{text, b.Bytes()}, nil
}
