package planner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const site = `qos:
  urgent: {Priority: 100, MaxWall: 1-00:00:00, Flags: DenyOnLimit, Preempt: normal}
accounts:
  nuclear: {Parent: physics, MaxJobs: 20}
  physics: {Description: Physics dept, Fairshare: 10, GrpTRES: {cpu: 100, mem: 1T}, QOS: [normal, urgent], Coordinators: alice}
users:
  alice: {DefaultAccount: physics, AdminLevel: Operator, Accounts: {physics: , nuclear: {MaxJobs: 3}}}
  bob: physics
  carol: {Accounts: {nuclear: {Partitions: [gpu]}}, Fairshare: 2}
`

// fresh is what slurmdbd has of a new cluster.
func fresh() Tables {
	return Tables{
		{Kind: Account, Name: "root"}:                      {Values: map[string]string{"Fairshare": "1"}},
		{Kind: QOS, Name: "normal"}:                        {Values: map[string]string{"Priority": "0"}},
		{Kind: User, Name: "root"}:                         {Values: map[string]string{"DefaultAccount": "root", "AdminLevel": "administrator"}},
		{Kind: Association, Name: "root", Account: "root"}: {Values: map[string]string{"Fairshare": "1"}},
	}
}

func parsed(t *testing.T, text string) *File {
	t.Helper()
	file, findings := Parse("site.yaml", []byte(text))
	require.NoError(t, findings.Err())
	require.NoError(t, file.CheckNames(fresh(), []string{"cpu", "mem", "gres/gpu"}).Err())
	return &file
}

func commands(p Plan) (all []string) {
	for _, step := range p.Steps() {
		all = append(all, step.Command)
	}
	return all
}

// made plays slurmdbd: all changes of a plan happen.
func made(now Tables, p *Plan) Tables {
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Verb == "delete" {
			delete(now, c.Key)
			for k := range now {
				if c.whole && k.Kind != Account && k.Kind != QOS && k.Name == c.Name {
					delete(now, k)
				}
			}
			continue
		}
		e := now[c.Key]
		if e == nil {
			e = &Entity{Values: map[string]string{}}
			now[c.Key] = e
		}
		if c.Kind == Association && now[Key{Kind: User, Name: c.Name}] == nil {
			now[Key{Kind: User, Name: c.Name}] = &Entity{Values: map[string]string{"DefaultAccount": c.Account}}
		}
		for name := range c.Set {
			a := find(c.Kind, name)
			value := c.Wanted[name]
			if a.form == tres {
				all := split(e.Values[name])
				for one, amount := range split(c.Set[name]) {
					all[one] = amount
					if amount == "-1" {
						delete(all, one)
					}
				}
				value = joined(all)
			}
			e.Values[name] = value
			if value == "" {
				delete(e.Values, name)
			}
		}
		if len(c.gains)+len(c.loses) > 0 {
			e.Values["Coordinators"] = c.Wanted["Coordinators"]
		}
	}
	return now
}

func empty() Record { return Record{Cluster: "c1", Made: map[string]*Made{}} }

func TestCommands(t *testing.T) {
	p := Compare(parsed(t, site), fresh(), empty(), false)
	assert.Equal(t, []string{
		"add qos Name=urgent Priority=100 Flags=denyonlimit MaxWall=1-00:00:00",
		"modify qos where Name=urgent set Preempt=normal",
		`add account Name=physics Cluster=c1 Description="physics dept" Fairshare=10 GrpTRES=cpu=100,mem=1048576 QOS=normal,urgent`,
		"add account Name=nuclear Cluster=c1 Parent=physics MaxJobs=20",
		"add user Name=alice,bob Cluster=c1 Account=physics",
		"add user Name=carol Cluster=c1 Account=nuclear Partition=gpu Fairshare=2",
		"add user Name=alice Cluster=c1 Account=nuclear MaxJobs=3",
		"modify user where Name=alice set AdminLevel=operator",
		"add coordinator Account=physics Names=alice",
	}, commands(p))
}

// TestFollow: a second comparison finds nothing, a change of the file is that change, and what leaves the file goes.
func TestFollow(t *testing.T) {
	now, record := fresh(), empty()
	now[Key{Kind: Account, Name: "theirs"}] = &Entity{Values: map[string]string{}}
	now[Key{Association, "dave", "theirs", ""}] = &Entity{Values: map[string]string{"MaxJobs": "5"}}
	now[Key{Kind: User, Name: "dave"}] = &Entity{Values: map[string]string{"DefaultAccount": "theirs"}}
	apply := func(text string) []string {
		file := parsedBeside(t, text, now)
		p := Compare(file, now, record, false)
		record = record.Note(&p)
		now = made(now, &p)
		all := commands(p)
		again := Compare(file, now, record, false)
		for len(commands(again)) > 0 && len(all) < 100 { // a default account comes with the second look
			all = append(all, commands(again)...)
			record, now = record.Note(&again), made(now, &again)
			again = Compare(file, now, record, false)
		}
		record = record.Settle(file, now)
		return all
	}
	require.NotEmpty(t, apply(site))
	require.Empty(t, apply(site))
	for _, c := range []struct {
		name, old, new string
		want           []string
	}{
		{"a value", "MaxJobs: 20", "MaxJobs: 21", []string{"modify account where Name=nuclear Cluster=c1 set MaxJobs=21"}},
		{"a value goes", ", MaxJobs: 20", "", []string{"modify account where Name=nuclear Cluster=c1 set MaxJobs=-1"}},
		{"a TRES goes", "{cpu: 100, mem: 1T}", "cpu=100", []string{"modify account where Name=physics Cluster=c1 set GrpTRES=mem=-1"}},
		{"a time", "1-00:00:00", "720", []string{"modify qos where Name=urgent set MaxWall=0-12:00:00"}},
		{"a time in other words", "1-00:00:00", "24:0:0", nil},
		{"a user", "  bob: physics\n", "", []string{"delete user where Name=bob Cluster=c1"}},
		{"one of the accounts", ", nuclear: {MaxJobs: 3}", "", []string{"delete user where Name=alice Cluster=c1 Account=nuclear"}},
		{"a coordinator", ", Coordinators: alice", "", []string{"delete coordinator Account=physics Names=alice"}},
		{"a default account", "DefaultAccount: physics", "DefaultAccount: nuclear", []string{"modify user where Name=alice Cluster=c1 set DefaultAccount=nuclear"}},
		{"an adopted one", "users:\n", "users:\n  dave: {DefaultAccount: theirs, MaxJobs: 5, MaxSubmitJobs: 9}\n", []string{
			"modify user where Name=dave Cluster=c1 Account=theirs set MaxSubmitJobs=9",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(site, c.old, c.new, 1)
			require.NotEqual(t, site, changed)
			assert.Equal(t, c.want, apply(changed))
			apply(site)
		})
	}
	// The adopted user has left the file: what was set goes, and what was there stays.
	assert.Equal(t, map[string]string{"MaxJobs": "5"}, now[Key{Association, "dave", "theirs", ""}].Values)
	assert.Equal(t, []string{
		"modify user where Name=alice set AdminLevel=none", "delete user where Name=alice,bob,carol Cluster=c1", "delete account where Name=nuclear,physics Cluster=c1", "delete qos where Name=urgent",
	}, apply("users: {}\n"), "nobody has asked whether that is confirmed")
	assert.NotNil(t, now[Key{Association, "dave", "theirs", ""}])
	assert.Empty(t, record.Made)
}

func parsedBeside(t *testing.T, text string, now Tables) *File {
	t.Helper()
	file, findings := Parse("site.yaml", []byte(text))
	require.NoError(t, findings.Err())
	require.NoError(t, file.CheckNames(now, []string{"cpu", "mem", "gres/gpu"}).Err())
	return &file
}

// TestRemovals: what was not made stays, an account stays with those below it, and many need a confirmation.
func TestRemovals(t *testing.T) {
	now, record := fresh(), empty()
	file := parsed(t, site)
	p := Compare(file, now, record, false)
	record, now = record.Note(&p), made(now, &p)
	now[Key{Association, "dave", "nuclear", ""}] = &Entity{Values: map[string]string{}}
	none := parsed(t, "users: {}\n")
	p = Compare(none, now, record, false)
	assert.Equal(t, 5, p.Removals)
	assert.True(t, p.Confirm)
	assert.Equal(t, []string{
		"account physics stays: account nuclear is below it, and is not to be removed",
		"account nuclear stays: user dave in account nuclear is below it, and is not to be removed",
	}, []string{p.Keeps[1], p.Keeps[0]})
	p = Compare(none, now, empty(), false)
	assert.Empty(t, commands(p), "nothing was made")
	p = Compare(none, now, empty(), true)
	assert.True(t, p.Confirm)
	assert.Equal(t, "delete user where Name=alice,bob,carol,dave Cluster=c1", commands(p)[0])

	for _, c := range []struct {
		count, all int
		many       bool
	}{{0, 0, false}, {2, 2, false}, {3, 59, true}, {3, 60, false}, {500, 10_000, false}, {501, 10_000, true}} {
		assert.Equal(t, c.many, TooMany(c.count, c.all), "%+v", c)
	}
}

// TestFaults: all are told at once, with their lines and what is allowed.
func TestFaults(t *testing.T) {
	text := `qos:
  Big: {}
  q: {Priority: many, Flags: Nonsense, MaxWall: soon, GrpTRES: cpu, Speed: 1, PreemptMode: "cancel,gang"}
accounts:
  a: {Parent: b, Description: "a|b", Fairshare: -2}
  b: {Parent: a}
  root: {}
users:
  u: {Accounts: [a, b]}
  "v w": a
  x: {Accounts: [a], MaxJobs: 1, MaxJobs: 2}
confirm: maybe
users2: {}
`
	_, findings := Parse("site.yaml", []byte(text))
	var lines []string
	for _, f := range findings {
		require.NotEmpty(t, f.Want, f.What)
		lines = append(lines, f.String()+" "+f.What)
	}
	for _, want := range []string{
		`site.yaml:2 qos: cannot use the name "Big"`, `site.yaml:3 Priority: cannot use "many"`, `site.yaml:3 Flags: cannot use "Nonsense"`,
		`site.yaml:3 MaxWall: cannot use "soon"`, `site.yaml:3 GrpTRES: cannot use "cpu"`, `site.yaml:3 qos: unknown key "Speed"`,
		`site.yaml:3 PreemptMode: cannot use "cancel,gang"`, `site.yaml:5 Description: cannot use "a|b"`, `site.yaml:5 Fairshare: cannot use "-2"`,
		`site.yaml:5 account a is its own parent's parent`, `site.yaml:7 account "root" is slurmdbd's own`,
		`site.yaml:9 user u has 2 accounts and no DefaultAccount`, `site.yaml:10 user: cannot use the name "v w"`,
		`site.yaml:11 user: "MaxJobs" is in line 11, too`, `site.yaml:12 confirm: cannot use "maybe"`, `site.yaml:13 unknown key "users2"`,
	} {
		assert.Contains(t, lines, want)
	}
	file, findings := Parse("site.yaml", []byte("accounts:\n  a: {Parent: z, GrpTRES: gres/none=1, QOS: q, Coordinators: u}\nusers:\n  v: b\n"))
	require.NoError(t, findings.Err())
	assert.Len(t, file.CheckNames(fresh(), []string{"cpu"}), 5)
}

func TestCanonical(t *testing.T) {
	for _, c := range []struct {
		form        form
		value, want string
	}{
		{minutes, "90", "90"},
		{minutes, "1:30", "2"},
		{minutes, "1:30:00", "90"},
		{minutes, "1-2:03", "1563"},
		{minutes, "1-00:00:00", "1440"},
		{minutes, "-1", ""},
		{seconds, "00:01:30", "90"},
		{fraction, "0.500000", "0.5"},
		{tres, "mem=10G,cpu=4", "cpu=4,mem=10240"},
		{tres, "mem=1500M", "mem=1500"},
		{tres, "mem=1.5G,cpu=-1", "mem=1536"},
		{tres, "cpu=2K", "cpu=2048"},
		{list, "b,a, b", "a,b"},
		{share, "Parent", "parent"},
		{text, " Physics Dept ", "physics dept"},
	} {
		a := Attribute{form: c.form}
		have, err := a.canonical(c.value)
		require.NoError(t, err, c.value)
		assert.Equal(t, c.want, have, c.value)
	}
}

// FuzzParse: no file panics, and one without findings leads to a plan that, once made, leaves nothing to do.
func FuzzParse(f *testing.F) {
	f.Add([]byte(site))
	f.Add([]byte("a: &a {x: *a}"))
	f.Add([]byte("users: [a, {b: c}]\naccounts: {p: {QOS: &q [normal]}, r: {QOS: *q, GrpWall: 1-}}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		file, findings := Parse("f", content)
		if findings.Err() != nil || file.CheckNames(fresh(), []string{"cpu", "mem"}).Err() != nil {
			return
		}
		now, record := fresh(), empty()
		for range 3 {
			p := Compare(&file, now, record, false)
			for _, step := range p.Steps() {
				if strings.ContainsAny(step.Command, "\n\r") {
					t.Fatalf("a command has a line's end in it: %q", step.Command)
				}
			}
			record, now = record.Note(&p), made(now, &p)
		}
		if p := Compare(&file, now, record, false); !p.Empty() {
			t.Fatalf("it is never done: %q", commands(p))
		}
	})
}
