package planner

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/link/peers"
	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
)

var (
	// noon is when the first table came, ended when the pod was gone, and looked when slurmctld was asked.
	noon   = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	ended  = noon.Add(time.Hour)
	looked = ended.Add(time.Second)
)

const timeout = 300 * time.Second

func slurmdPod(uid string, addresses ...string) wire.Peer {
	p := wire.Peer{Name: "n1", UID: uid, Role: "slurmd"}
	for _, a := range addresses {
		p.Addresses = append(p.Addresses, netip.MustParseAddr(a))
	}
	return p
}

// recorded is n1's record, whose slurmd began half an hour before the pod's end.
func recorded(state string, change ...func(*slurm.Node)) slurm.Node {
	n := slurm.Node{Name: "n1", State: slurm.ParseState(state)}
	n.SlurmdStartAt, n.BootAt, n.Extra = slurm.Time(noon.Add(30*time.Minute).Unix()), slurm.Time(noon.Unix()), `{"slurmlet":"2026-11-23T12:30:00Z"}`
	for _, c := range change {
		c(&n)
	}
	return n
}

func reason(text string, at time.Time) func(*slurm.Node) {
	return func(n *slurm.Node) { n.Reason, n.ReasonAt = text, slurm.Time(at.Unix()) }
}

func extra(text string) func(*slurm.Node) { return func(n *slurm.Node) { n.Extra = text } }

func started(at time.Time) func(*slurm.Node) {
	return func(n *slurm.Node) { n.SlurmdStartAt = slurm.Time(at.Unix()) }
}

// known are pods whose first table had n1.
func known() *Pods {
	p := NewPods()
	p.Take(peers.Change{Whole: true, Put: []wire.Peer{slurmdPod("u1", "10.0.0.1"), {Name: "login", UID: "u9", Role: "login"}}}, noon)
	return p
}

func (r Records) with(nodes ...slurm.Node) Records {
	r.Nodes = nodes
	if r.Connected == nil {
		r.Connected = func(string) bool { return false }
	}
	return r
}

var atLook = Records{At: looked, SlurmdTimeout: timeout}

// verdict is what a Plan says of n1.
type verdict struct {
	deleted, doubted, settled bool
	failed, told              string
}

func ofPlan(p *Pods, plan Plan) verdict {
	_, waits := p.gone["n1"]
	return verdict{slices.Contains(plan.Delete, "n1"), slices.Contains(plan.Doubt, "n1"), !waits, plan.Fail["n1"], plan.New["n1"]}
}

var (
	justGone = peers.Change{Gone: []wire.Gone{{Name: "n1", UID: "u1"}}}
	lost     = peers.Change{Gone: []wire.Gone{{Name: "n1", UID: "u1", Lost: true}}}
	unlisted = peers.Change{Whole: true, Gone: []wire.Gone{{Name: "n1", UID: "u1"}}}
)

func with(c peers.Change, p ...wire.Peer) peers.Change {
	c.Put = p
	return c
}

// TestGone: what becomes of n1's record when its pod is gone.
func TestGone(t *testing.T) {
	never := func(string) bool { return false }
	for name, tt := range map[string]struct {
		change    peers.Change
		record    slurm.Node
		suspended bool
		connected bool
		// unproved: the node's agent was never connected.
		unproved bool
		want     verdict
	}{
		"an idle record goes": {change: justGone, record: recorded("IDLE+DYNAMIC_NORM"), want: verdict{deleted: true}},
		"its agent has left the record to the next pod": {
			change: justGone, record: recorded("DOWN+DRAIN+DYNAMIC_NORM", reason(reasons.Kept+"job 7 names the node", ended)), want: verdict{settled: true, told: settledStays},
		},
		"one that is DOWN":                           {change: justGone, record: recorded("DOWN+DYNAMIC_NORM+NOT_RESPONDING"), want: verdict{deleted: true}},
		"an administrator's drain goes with it":      {change: justGone, record: recorded("IDLE+DRAIN+DYNAMIC_NORM", reason("fan", noon)), want: verdict{deleted: true}},
		"backfill's plans do not keep it":            {change: justGone, record: recorded("IDLE+PLANNED+DYNAMIC_NORM"), want: verdict{deleted: true}},
		"a job holds it":                             {change: justGone, record: recorded("ALLOCATED+DYNAMIC_NORM"), want: verdict{told: whyJobs}},
		"a job's rest holds it":                      {change: justGone, record: recorded("IDLE+COMPLETING+DYNAMIC_NORM"), want: verdict{told: whyJobs}},
		"a suspended job holds it":                   {change: justGone, record: recorded("IDLE+DYNAMIC_NORM"), suspended: true, want: verdict{told: whyJobs}},
		"a reservation has it":                       {change: justGone, record: recorded("IDLE+RESERVED+DYNAMIC_NORM"), want: verdict{deleted: true}}, // slurm.ErrKept
		"it reboots":                                 {change: justGone, record: recorded("DOWN+REBOOT_ISSUED+DYNAMIC_NORM"), want: verdict{told: whySlurm}},
		"Slurm powers it up":                         {change: justGone, record: recorded("IDLE+POWERING_UP+DYNAMIC_NORM"), want: verdict{told: whySlurm}},
		"nothing is known of it":                     {change: justGone, record: recorded("UNKNOWN+DYNAMIC_NORM"), want: verdict{told: whySlurm}},
		"a static record":                            {change: justGone, record: recorded("IDLE"), want: verdict{settled: true, told: settledStatic}},
		"a CLOUD record":                             {change: justGone, record: recorded("IDLE+CLOUD+DYNAMIC_NORM"), want: verdict{settled: true, told: settledStatic}},
		"a FUTURE record":                            {change: justGone, record: recorded("FUTURE+DYNAMIC_NORM"), want: verdict{settled: true, told: settledStatic}},
		"its agent is connected":                     {change: justGone, record: recorded("IDLE+DYNAMIC_NORM"), connected: true, want: verdict{doubted: true, told: whyConnected}},
		"a new pod has its name":                     {change: with(justGone, slurmdPod("u2", "10.0.0.2")), record: recorded("IDLE+DYNAMIC_NORM"), want: verdict{settled: true, told: settledNewPod}},
		"a new pod has no address yet":               {change: with(justGone, slurmdPod("u2")), record: recorded("IDLE+DYNAMIC_NORM"), want: verdict{settled: true, told: settledNewPod}},
		"a login pod has its name":                   {change: with(justGone, wire.Peer{Name: "n1", UID: "u2", Role: "login"}), record: recorded("IDLE+DYNAMIC_NORM"), want: verdict{deleted: true}},
		"a slurmd has registered since":              {change: justGone, record: recorded("IDLE+DYNAMIC_NORM", started(ended)), want: verdict{settled: true, told: settledSlurmd}},
		"a slurmd whose clock is ahead":              {change: justGone, record: recorded("IDLE+DYNAMIC_NORM", started(ended.Add(time.Hour))), want: verdict{settled: true, told: settledSlurmd}},
		"only absent: slurmctld must agree":          {change: unlisted, record: recorded("IDLE+DYNAMIC_NORM"), want: verdict{told: whyAlive}},
		"only absent, and slurmd does not answer":    {change: unlisted, record: recorded("IDLE+DYNAMIC_NORM+NOT_RESPONDING"), want: verdict{deleted: true}},
		"only absent, and DOWN":                      {change: unlisted, record: recorded("DOWN+DYNAMIC_NORM"), want: verdict{deleted: true}},
		"only absent, and a job holds it":            {change: unlisted, record: recorded("ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING"), want: verdict{told: whyJobs}},
		"lost and idle":                              {change: lost, record: recorded("IDLE+DYNAMIC_NORM"), want: verdict{deleted: true}},
		"lost with a job":                            {change: lost, record: recorded("ALLOCATED+DYNAMIC_NORM"), want: verdict{failed: reasons.LostMachine}},
		"lost with a suspended job":                  {change: lost, record: recorded("IDLE+DYNAMIC_NORM"), suspended: true, want: verdict{failed: reasons.LostMachine}},
		"lost with a job, static":                    {change: lost, record: recorded("MIXED"), want: verdict{failed: reasons.LostMachine}},
		"lost and idle, static":                      {change: lost, record: recorded("IDLE"), want: verdict{settled: true, told: settledStatic}},
		"lost, and an administrator's reason stays":  {change: lost, record: recorded("ALLOCATED+DRAIN+DYNAMIC_NORM", reason("fan", noon)), want: verdict{failed: "fan"}},
		"lost, and its own drain":                    {change: lost, record: recorded("ALLOCATED+DRAIN+DYNAMIC_NORM", reason("slurmlet: pod is terminating", noon)), want: verdict{failed: reasons.LostMachine}},
		"lost, but its agent is connected":           {change: lost, record: recorded("ALLOCATED+DYNAMIC_NORM"), connected: true, want: verdict{doubted: true, told: whyConnected}},
		"lost, and nobody knows its agent":           {change: lost, record: recorded("ALLOCATED+DYNAMIC_NORM"), unproved: true, want: verdict{told: whyUnproved}},
		"lost, unknown, and slurmd does not answer":  {change: lost, record: recorded("ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING"), unproved: true, want: verdict{failed: reasons.LostMachine}},
		"lost, and a new pod is on its way":          {change: with(lost, slurmdPod("u2")), record: recorded("ALLOCATED+DYNAMIC_NORM"), want: verdict{failed: reasons.LostMachine}},
		"lost and idle, and a new pod on its way":    {change: with(lost, slurmdPod("u2")), record: recorded("IDLE+DYNAMIC_NORM"), want: verdict{settled: true, told: settledNewPod}},
		"lost, and a new pod may have registered":    {change: with(lost, slurmdPod("u2", "10.0.0.2")), record: recorded("ALLOCATED+DYNAMIC_NORM"), want: verdict{settled: true, told: settledNewPod}},
		"lost, and a slurmd has registered since":    {change: lost, record: recorded("ALLOCATED+DYNAMIC_NORM", started(ended)), want: verdict{settled: true, told: settledSlurmd}},
		"another pod than the one that had the name": {change: peers.Change{Gone: []wire.Gone{{Name: "n1", UID: "u0", Lost: true}}}, record: recorded("ALLOCATED+DYNAMIC_NORM"), want: verdict{settled: true}},
		"no pod of slurmd's":                         {change: peers.Change{Gone: []wire.Gone{{Name: "login", UID: "u9", Lost: true}}}, record: recorded("ALLOCATED+DYNAMIC_NORM"), want: verdict{settled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			p := known()
			p.followed = map[string]bool{"n1": !tt.unproved}
			p.Take(tt.change, ended)
			r := atLook.with(tt.record)
			r.Suspended, r.Connected = map[string]bool{"n1": tt.suspended}, never
			if tt.connected {
				r.Connected = func(name string) bool { return name == "n1" }
			}
			assert.Equal(t, tt.want, ofPlan(p, p.Plan(r, looked)))
		})
	}
}

// TestGoneWithoutARecord: the pod's agent has deleted it, as nearly always.
func TestGoneWithoutARecord(t *testing.T) {
	p := known()
	p.Take(justGone, ended)
	assert.Equal(t, verdict{settled: true, told: settledNothing}, ofPlan(p, p.Plan(atLook.with(), looked)))
}

// TestOldRecords: what slurmctld said before the pod was gone decides nothing.
func TestOldRecords(t *testing.T) {
	p := known()
	p.Take(lost, ended)
	r := atLook.with(recorded("ALLOCATED+DYNAMIC_NORM"))
	r.At = ended.Add(-time.Millisecond)
	assert.Equal(t, verdict{}, ofPlan(p, p.Plan(r, looked)))
	n, next := p.CountGone()
	assert.Equal(t, 1, n)
	assert.False(t, next.After(looked))
}

// TestStory: a busy record is kept until its job has ended, and is then deleted.
func TestStory(t *testing.T) {
	p := known()
	p.Take(justGone, ended)
	now := looked
	for range 30 {
		plan := p.Plan(Records{At: now, SlurmdTimeout: timeout}.with(recorded("ALLOCATED+DYNAMIC_NORM")), now)
		require.Empty(t, plan.Delete)
		require.Empty(t, plan.Fail)
		n, next := p.CountGone()
		require.Equal(t, 1, n)
		require.True(t, next.After(now) && !next.After(now.Add(lastLook)))
		require.Equal(t, map[string]string{"n1": whyJobs}, p.Kept())
		now = next
	}
	require.Greater(t, now.Sub(looked), 5*time.Minute, "the pauses grow")
	free := Records{At: now, SlurmdTimeout: timeout}.with(recorded("IDLE+DYNAMIC_NORM"))
	require.Equal(t, []string{"n1"}, p.Plan(free, now).Delete)
	require.Empty(t, p.Plan(free, now).Delete, "not again at once")
	p.Refused("n1", "slurmctld is busy")
	require.Equal(t, map[string]string{"n1": "slurmctld is busy"}, p.Kept())
	_, next := p.CountGone()
	free.At = next
	require.Equal(t, []string{"n1"}, p.Plan(free, next).Delete)
	p.Deleted("n1")
	n, _ := p.CountGone()
	require.Zero(t, n)
}

// TestLostStory: DOWN, and then the record goes, unless a new pod has come.
func TestLostStory(t *testing.T) {
	p := known()
	p.followed = map[string]bool{"n1": true}
	p.Take(lost, ended)
	require.Equal(t, map[string]string{"n1": reasons.LostMachine}, p.Plan(atLook.with(recorded("ALLOCATED+DYNAMIC_NORM")), looked).Fail)
	p.Failed("n1", looked)
	down := recorded("DOWN+DRAIN+COMPLETING+DYNAMIC_NORM", reason(reasons.LostMachine, looked))
	plan := p.Plan(atLook.with(down), looked)
	require.Empty(t, plan.Fail, "once is enough")
	require.Empty(t, plan.Delete)
	_, next := p.CountGone()
	free := recorded("DOWN+DRAIN+DYNAMIC_NORM", reason(reasons.LostMachine, looked))
	require.Equal(t, []string{"n1"}, p.Plan(Records{At: next}.with(free), next).Delete)
	_, next = p.CountGone()
	p.Take(peers.Change{Put: []wire.Peer{slurmdPod("u2")}}, next)
	require.Empty(t, p.Plan(Records{At: next}.with(free), next).Delete)
	n, _ := p.CountGone()
	require.Zero(t, n)
}

// TestAnotherSlurmd: a slurmd that registers between two looks has the record, whatever its clock says.
func TestAnotherSlurmd(t *testing.T) {
	registered := verdict{settled: true, told: settledSlurmd}
	forgets := func(n *slurm.Node) { n.SlurmdStartAt, n.BootAt = 0, 0 }
	for name, c := range map[string]struct {
		change func(*slurm.Node)
		want   verdict
	}{
		"its start":                      {started(noon.Add(31 * time.Minute)), registered},
		"its boot":                       {func(n *slurm.Node) { n.BootAt++ }, registered},
		"its mark":                       {extra(`{"slurmlet":"2026-11-23T12:31:00Z"}`), registered},
		"slurmctld has started":          {forgets, verdict{deleted: true}},
		"slurmctld has started, by mark": {func(n *slurm.Node) { forgets(n); n.Extra = `{"slurmlet":"x"}` }, registered},
	} {
		p := known()
		p.Take(justGone, ended)
		require.Equal(t, verdict{told: whyJobs}, ofPlan(p, p.Plan(atLook.with(recorded("ALLOCATED+DYNAMIC_NORM")), looked)), name)
		_, next := p.CountGone()
		assert.Equal(t, c.want, ofPlan(p, p.Plan(Records{At: next}.with(recorded("IDLE+DYNAMIC_NORM", c.change)), next)), name)
	}
}

// TestLeft: records that no pod has, and of which nobody has told anything.
func TestLeft(t *testing.T) {
	down, silent := "DOWN+DYNAMIC_NORM+NOT_RESPONDING", reason("Not responding", noon.Add(-time.Hour))
	at := noon.Add(timeout)
	for name, tt := range map[string]struct {
		record    slurm.Node
		at        time.Time
		suspended bool
		connected bool
		live      bool
		want      bool
	}{
		"DOWN for long":                         {record: recorded(down, silent), at: at, want: true},
		"DOWN as its machine was lost":          {record: recorded("DOWN+DRAIN+DYNAMIC_NORM", reason(reasons.LostMachine, noon.Add(-time.Hour))), at: at, want: true},
		"the table is young":                    {record: recorded(down, silent), at: at.Add(-time.Second)},
		"a reason of before is kept":            {record: recorded(down, reason("slurmlet: drained : Not responding", noon.Add(-time.Hour))), at: at, want: true},
		"an administrator has drained it":       {record: recorded(down+"+DRAIN", reason("disk : Not responding", noon.Add(-time.Hour))), at: at},
		"not DOWN for long":                     {record: recorded(down, reason("Not responding", noon.Add(time.Second))), at: at},
		"it does not answer, and is not DOWN":   {record: recorded("IDLE+DYNAMIC_NORM+NOT_RESPONDING", silent), at: at},
		"an administrator has set it DOWN":      {record: recorded(down, reason("fan", noon.Add(-time.Hour))), at: at},
		"it is DOWN, and answers":               {record: recorded("DOWN+DYNAMIC_NORM", silent), at: at},
		"idle":                                  {record: recorded("IDLE+DYNAMIC_NORM"), at: at},
		"a pod has it":                          {record: recorded(down, silent), at: at, live: true},
		"its agent is connected":                {record: recorded(down, silent), at: at, connected: true},
		"a job's rest holds it":                 {record: recorded(down+"+COMPLETING", silent), at: at},
		"a suspended job holds it":              {record: recorded(down, silent), at: at, suspended: true},
		"a reservation has it":                  {record: recorded(down+"+RESERVED", silent), at: at, want: true}, // slurm.ErrKept
		"a pod's, and it does not answer yet":   {record: recorded("IDLE+DYNAMIC_NORM+NOT_RESPONDING", silent, ofPod), at: at},
		"its pod is made again":                 {record: recorded(down+"+DRAIN", reason(reasons.Kept+"StatefulSet n makes it again : Not responding", noon.Add(-time.Hour))), at: at},
		"static":                                {record: recorded("DOWN+NOT_RESPONDING", silent), at: at},
		"CLOUD":                                 {record: recorded(down+"+CLOUD+POWERED_DOWN", silent), at: at},
		"a slurmd without an agent":             {record: recorded(down, silent, extra("")), at: at},
		"a slurmd with an Extra of the site's":  {record: recorded(down, silent, extra(`{"rack":"r1"}`)), at: at},
		"nobody knows since when it is DOWN":    {record: recorded(down, func(n *slurm.Node) { n.Reason = "Not responding" }), at: at},
		"slurmctld has powered it down":         {record: recorded(down+"+POWERED_DOWN", silent), at: at},
		"a table that is older, and DOWN since": {record: recorded(down, reason("Not responding", at)), at: at.Add(timeout), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPods()
			if p.Plan(Records{At: tt.at, SlurmdTimeout: timeout}.with(tt.record), tt.at).Delete != nil {
				t.Fatal("nothing is deleted before the first table")
			}
			table := peers.Change{Whole: true}
			if tt.live {
				table.Put = []wire.Peer{slurmdPod("u1", "10.0.0.1")}
			}
			p.Take(table, noon)
			r := Records{At: tt.at, SlurmdTimeout: timeout}.with(tt.record)
			r.Suspended, r.Connected = map[string]bool{"n1": tt.suspended}, func(string) bool { return tt.connected }
			assert.Equal(t, tt.want, len(p.Plan(r, tt.at).Delete) > 0)
			r.SlurmdTimeout = 0
			plan := p.Plan(r, tt.at)
			assert.Empty(t, plan.Delete, "SlurmdTimeout is not known")
			if tt.want {
				assert.True(t, plan.Unsettled)
			}
		})
	}
}

// FuzzGone: whatever is told, no record goes that must stay.
func FuzzGone(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13})
	f.Add([]byte{8, 0, 9, 1, 10, 2, 3, 11, 3, 12, 3, 13})
	states := []string{
		"IDLE+DYNAMIC_NORM", "ALLOCATED+DYNAMIC_NORM", "DOWN+DYNAMIC_NORM+NOT_RESPONDING", "IDLE", "IDLE+CLOUD+DYNAMIC_NORM",
		"IDLE+COMPLETING+DYNAMIC_NORM", "IDLE+RESERVED+DYNAMIC_NORM", "DOWN+DRAIN+DYNAMIC_NORM",
	}
	f.Fuzz(func(t *testing.T, moves []byte) {
		p, now, uid, live, failed := NewPods(), noon, 'a', "", 0
		record := recorded(states[0], started(noon.Add(-time.Hour)))
		for _, move := range moves {
			now = now.Add(time.Duration(move) * time.Second)
			switch m := int(move) % (len(states) + 6); {
			case m < len(states):
				record.State = slurm.ParseState(states[m])
			case m == len(states):
				uid++
				live = string(uid)
				p.Take(peers.Change{Put: []wire.Peer{slurmdPod(live, "10.0.0.1")}}, now)
			case m == len(states)+1 && live != "":
				p.Take(peers.Change{Gone: []wire.Gone{{Name: "n1", UID: live, Lost: move > 100}}}, now)
				live = ""
			case m == len(states)+2:
				live = ""
				p.Take(peers.Change{Whole: true, Gone: []wire.Gone{{Name: "n1", UID: string(uid)}}}, now)
			case m == len(states)+3:
				record.SlurmdStartAt = slurm.Time(now.Unix())
			default:
				r := Records{At: now, SlurmdTimeout: timeout}.with(record)
				connected := m == len(states)+4
				r.Connected = func(string) bool { return connected }
				plan := p.Plan(r, now)
				bad := connected || live != "" || holdsJobs(&record, false) || !deletable(&record)
				require.False(t, bad && len(plan.Delete) > 0, "deleted %v", record)
				require.False(t, (connected || live != "") && len(plan.Fail) > 0, "failed %v", record)
				for name := range plan.Fail {
					failed++
					p.Failed(name, now)
				}
				for _, name := range plan.Delete {
					p.Deleted(name)
				}
				n, _ := p.CountGone()
				require.LessOrEqual(t, n, 1)
			}
		}
		require.LessOrEqual(t, failed, len(moves))
	})
}

func ofPod(n *slurm.Node) { n.Extra = slurm.Mark(noon, true) }

// TestLeftPod: a pod was gone before the first table, which slurmctld has not found out.
func TestLeftPod(t *testing.T) {
	idle := "IDLE+DYNAMIC_NORM+NOT_RESPONDING"
	for name, tt := range map[string]struct {
		record    slurm.Node
		connected bool
		want      bool
	}{
		"it does not answer":              {record: recorded(idle, ofPod), want: true},
		"it is DOWN":                      {record: recorded("DOWN+DYNAMIC_NORM+NOT_RESPONDING", reason("Not responding", noon), ofPod), want: true},
		"it was drained by an agent":      {record: recorded(idle+"+DRAIN", reason("slurmlet: pod is terminating", noon), ofPod), want: true},
		"an administrator has drained it": {record: recorded(idle+"+DRAIN", reason("fan", noon), ofPod)},
		"it answers":                      {record: recorded("IDLE+DYNAMIC_NORM", ofPod)},
		"a job holds it":                  {record: recorded("ALLOCATED+DYNAMIC_NORM+NOT_RESPONDING", ofPod)},
		"it is no pod":                    {record: recorded(idle, extra(slurm.Mark(noon, false)))},
		"a site's Extra":                  {record: recorded(idle, extra(`{"x":1,"pod":true}`))},
		"its agent is connected":          {record: recorded(idle, ofPod), connected: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := NewPods()
			p.Take(peers.Change{Whole: true}, noon)
			look := func(at time.Time, n slurm.Node) bool {
				r := Records{At: at}.with(n)
				r.Connected = func(string) bool { return tt.connected }
				return len(p.Plan(r, at).Delete) > 0
			}
			require.False(t, look(noon.Add(leftFor), tt.record), "it has just fallen silent")
			require.False(t, look(noon.Add(2*leftFor-time.Second), tt.record))
			require.Equal(t, tt.want, look(noon.Add(2*leftFor), tt.record))
			require.False(t, look(noon.Add(3*leftFor), recorded("IDLE+DYNAMIC_NORM", ofPod)))
			require.False(t, look(noon.Add(4*leftFor), tt.record), "it had answered")
			p.Take(peers.Change{Put: []wire.Peer{slurmdPod("u1")}}, noon.Add(4*leftFor))
			require.False(t, look(noon.Add(6*leftFor), tt.record), "a pod has it")
		})
	}
}
