package lifecycle

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/internal/nodesize"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// The files testdata/*.txt are transcripts: events, and what Step made of each. -update writes
// them anew, and git diff shows then what has changed.
//
//	== a job is there             begins a case.
//	# why it is so                is a comment, and so is what follows two blanks and a # on a line.
//	life node grace=30s           is the first state of a role (lives), with what is said about it.
//	from Ready                    is the state in which an earlier case of the file has ended.
//	answer record=MIXED steps=1   is an event: a word (moves), and each field that is not as usual.
//	  -> drain #4 reason="..."    is an action of it,
//	  phase: Resizing             and this is different since ("-" is none).
//
// Every question, change and timer has a number (#4). An answer without a number is for the open
// question, and a timer without one is the armed timer. Times are told from one moment on (+1m0s).
// A record is that of an idle node of 1 CPU, except for what the answer says: its state (record),
// cpus, reason, weight, features, and when its slurmd started (slurmd). no-record says that
// slurmctld has no record of the node. An answer without either says that what was asked serves.

var update = flag.Bool("update", false, "write the transcripts anew")

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			written, err := os.ReadFile(file)
			require.NoError(t, err)
			cases, _, err := perform(string(written))
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(strings.Join(cases, "")), 0o644))
				return
			}
			for i, was := range inCases(string(written)) {
				name, _, _ := strings.Cut(strings.TrimPrefix(was, "== "), "\n")
				t.Run(name, func(t *testing.T) {
					assert.Equal(t, was, cases[i], "-update writes it anew")
				})
			}
		})
	}
}

// inCases divides a transcript. What is before the first case is the first of them.
func inCases(text string) []string {
	var cases []string
	for line := range strings.Lines(text) {
		if len(cases) == 0 || strings.HasPrefix(line, "== ") {
			cases = append(cases, "")
		}
		cases[len(cases)-1] += line
	}
	return cases
}

// perform has a transcript's events happen, and gives its cases anew. last is the state at its end.
func perform(text string) (cases []string, last State, err error) {
	ended := map[string]State{}
	for _, was := range inCases(text) {
		var now strings.Builder
		name := ""
		for line := range strings.Lines(was) {
			if strings.HasPrefix(line, "  ") {
				continue // is made anew
			}
			now.WriteString(line)
			word, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			switch word {
			case "", "#":
			case "==":
				if _, twice := ended[rest]; twice {
					return nil, last, fmt.Errorf("there are two cases %q", rest)
				}
				name = rest
			case "from":
				l, is := ended[rest]
				if !is {
					return nil, last, fmt.Errorf("case %q: no case %q has ended before", name, rest)
				}
				last = l
			case "life":
				if last, err = readLife(rest); err != nil {
					return nil, last, fmt.Errorf("case %q: %w", name, err)
				}
			default:
				e, err := readEvent(last, line)
				if err != nil {
					return nil, last, fmt.Errorf("case %q: %w", name, err)
				}
				next, actions := Step(last, e)
				for _, a := range actions {
					fmt.Fprintf(&now, "  -> %s\n", tellAction(a))
				}
				now.WriteString(changes(last, next))
				last = next
			}
		}
		ended[name] = last
		cases = append(cases, now.String())
	}
	return cases, last, nil
}

// lives are the roles, by what the agent does for them.
var lives = map[string]Plan{
	"node":      {Registers: true, Restarts: true, Announces: true, Reaches: true},
	"slurmctld": {Announces: true, Reloads: true},
	"plain":     {Announces: true}, // a daemon whose end is the container's
	"login":     {Restarts: true, Announces: true, Reaches: true, Hosts: true},
	"slurmdbd":  {Restarts: true, Reaches: true},
	"sackd":     {Restarts: true, Announces: true},
}

func readLife(text string) (State, error) {
	role, rest, _ := strings.Cut(text, " ")
	plan, is := lives[role]
	if !is {
		return State{}, fmt.Errorf("no such role: %s", role)
	}
	grace, l := 30*time.Second, New(plan, nodesize.Allocation{Size: small})
	for key, value := range fieldsOf(rest) {
		var err error
		switch key {
		case "grace":
			grace, err = time.ParseDuration(value)
		case "lead":
			l.Signals = true
			l.Lead, err = time.ParseDuration(value)
		case "gres":
			l.GresConf = value
		case "held":
			l.Held = value
		case "inherits":
			l.Inherits = true
		case "features":
			l.Traits.Features = nodesize.Trait{Value: value, Source: "labels"}
		case "good":
			l.Good = readSet(value)
		case "next":
			var e Event
			e, err = readEvent(l, "edit "+value)
			next, _ := e.(Revision)
			l.Next = &next
		default:
			err = fmt.Errorf("no such field of a life: %s", key)
		}
		if err != nil {
			return State{}, err
		}
	}
	l.Deadlines = NewDeadlines(grace, l.Lead)
	return l, nil
}

// moves are the words for events, with the fields as they usually are.
var moves = []struct {
	word  string
	usual Event
}{
	{"begin", Begun{}},
	{"start", MainStarted{At: epoch}},
	{"start-fails", MainFailed{}},
	{"ready", MainReady{}},
	{"handover", MainChanged{At: epoch}},
	{"exit", MainExited{}},
	{"hang", MainHung{}},
	{"answer", Answered{}},
	{"done", Done{}},
	{"measure", Measured{Allocation: nodesize.Allocation{Size: small}, At: epoch}},
	{"order", DeadlineSet{At: epoch}},
	{"step-ends", StepsEnded{}},
	{"count", StepsCounted{}},
	{"timer", TimerFired{}},
	{"SIGTERM", Terminated{Signal: "SIGTERM", At: epoch}},
	{"SIGINT", Terminated{Signal: "SIGINT", At: epoch}},
	{"SIGHUP", HungUp{}},
	{"complain", Troubled{}},
	{"files", FilesChanged{}},
	{"sessions-over", SessionsOver{}},
	{"deadline", DeadlinePassed{}},
	{"edit", Revision{At: epoch}},
	{"checked", Checked{Staged: "staged"}},
	{"launched", LaunchesOver{}},
	{"placed", PlaceEnded{}},
	{"reconfigured", ReconfigureEnded{}},
	{"nodes", NodesAsked{}},
	{"reload-timer", ReloadTimerFired{}},
	{"outdated", Outdated{}},
	{"slurmctld-lost", ControllerLost{}},
	{"lost-jobs", LostJobsFound{}},
}

var verbs = [...]string{
	DeleteNode: "delete", DeleteAgain: "delete-again", DrainNode: "drain", ResumeNode: "resume", UpdateNode: "update",
	FailNode: "fail", RequeueJobs: "requeue", EndStaleJobs: "end-stale-jobs", StartSackd: "start-sackd",
}

var stages = [...]string{
	toWait: "wait", toSignal: "signal", toRequeue: "requeue", toKill: "kill", toFail: "fail", toLeave: "leave", toStop: "stop",
}

// openNumber is the number that an event without one has.
func openNumber(l State, e Event) int {
	switch e.(type) {
	case TimerFired:
		return l.timer
	case ReloadTimerFired:
		return l.clock
	case Checked, LaunchesOver, PlaceEnded, ReconfigureEnded, NodesAsked:
		return l.put
	}
	return l.question
}

func readEvent(l State, line string) (Event, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	for _, m := range moves {
		if m.word != word {
			continue
		}
		e := reflect.New(reflect.TypeOf(m.usual)).Elem()
		e.Set(reflect.ValueOf(m.usual))
		if n := e.FieldByName("Number"); n.IsValid() {
			n.SetInt(int64(openNumber(l, m.usual)))
		}
		for key, value := range fieldsOf(rest) {
			if err := readField(e, key, value); err != nil {
				return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
			}
		}
		return e.Interface(), nil
	}
	return nil, fmt.Errorf("no such event: %s", word)
}

// fieldsOf gives the words of a line: key=value, key="a value", or key alone.
func fieldsOf(text string) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for text = strings.TrimLeft(text, " "); text != "" && text[0] != '#' || numbered(text); text = strings.TrimLeft(text, " ") {
			end := strings.IndexAny(text, " =")
			if end < 0 || text[end] == ' ' {
				word, rest, _ := strings.Cut(text, " ")
				if !yield(word, "") {
					return
				}
				text = rest
				continue
			}
			key, value := text[:end], text[end+1:]
			if quoted, err := strconv.QuotedPrefix(value); err == nil {
				text = value[len(quoted):]
				value, _ = strconv.Unquote(quoted)
			} else {
				value, text, _ = strings.Cut(value, " ")
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

// numbered says whether a text begins with a number as in #4, and not with a comment.
func numbered(text string) bool {
	return len(text) > 1 && text[0] == '#' && unicode.IsDigit(rune(text[1]))
}

// fieldNames are those that are not simply the field's name in small letters.
var fieldNames = map[string]string{"Err": "error"}

func readField(e reflect.Value, key, value string) error {
	if numbered(key) {
		n, err := strconv.Atoi(key[1:])
		e.FieldByName("Number").SetInt(int64(n))
		return err
	}
	switch at := e.Addr().Interface().(type) {
	case *Answered:
		if is, err := readRecord(at, key, value); is || err != nil {
			return err
		}
	case *Measured:
		if is, err := readAllocation(&at.Allocation, key, value); is || err != nil {
			return err
		}
	}
	f := e.FieldByNameFunc(func(name string) bool { return cmp.Or(fieldNames[name], strings.ToLower(name)) == key })
	if !f.IsValid() {
		return fmt.Errorf("no such field: %s", key)
	}
	var read any
	var err error
	switch f.Interface().(type) {
	case bool:
		read = true
	case int:
		read, err = strconv.Atoi(value)
	case string:
		read = value
	case []string:
		read = strings.Split(value, ",")
	case time.Duration:
		read, err = time.ParseDuration(value)
	case time.Time:
		read, err = readTime(value)
	case Stage:
		i := slices.Index(stages[:], value)
		if i < 0 {
			err = fmt.Errorf("no such stage: %s", value)
		}
		read = Stage(i)
	case *confset.Set:
		read = readSet(value)
	case []slurm.Job:
		state, id, _ := strings.Cut(value, "/")
		n, bad := strconv.ParseInt(cmp.Or(id, "5"), 10, 64)
		read, err = []slurm.Job{{ID: n, State: strings.Split(state, "+")}}, bad
	default: // an error
		read = readError(value)
	}
	if err == nil {
		f.Set(reflect.ValueOf(read))
	}
	return err
}

func readTime(value string) (time.Time, error) {
	d, err := time.ParseDuration(value)
	return epoch.Add(d), err
}

// readSet reads hash/key.
func readSet(value string) *confset.Set {
	hash, key, _ := strings.Cut(value, "/")
	return &confset.Set{Hash: hash, KeyHash: key}
}

// readError reads an error that Step knows by its kind, or any other.
func readError(value string) error {
	for _, known := range []error{slurm.ErrBusy, slurm.ErrNoNode, slurm.ErrUnreachable} {
		if value == known.Error() {
			return known
		}
	}
	if why, is := strings.CutPrefix(value, "jobs: "); is {
		return InUse{why}
	}
	if why, is := strings.CutPrefix(value, "pod: "); is {
		return nodesize.PodInfoError{Err: errors.New(why)}
	}
	return errors.New(value)
}

func readRecord(e *Answered, key, value string) (is bool, err error) {
	if key == "record" {
		state := strings.Split(value, "+")
		e.Node = record(func(n *slurm.Node) { n.State = slices.Insert(state, 1, "DYNAMIC_NORM") })
		return true, nil
	}
	if key == "no-record" {
		return true, nil
	}
	if e.Node == nil {
		return false, nil
	}
	switch key {
	case "cpus":
		e.Node.CPUs, err = strconv.Atoi(value)
		e.Node.EffectiveCPUs = e.Node.CPUs
	case "reason":
		e.Node.Reason = value
	case "weight":
		e.Node.Weight, err = strconv.ParseInt(value, 10, 64)
	case "features":
		e.Node.Features = strings.Split(value, ",")
	case "slurmd":
		if value == "unknown" {
			e.Node.SlurmdStart = slurm.Time{}
			break
		}
		e.Node.SlurmdStart.Time, err = readTime(value)
		e.Node.SlurmdStart.Time = e.Node.SlurmdStart.Truncate(time.Second)
	default:
		return false, nil
	}
	return true, err
}

func readAllocation(a *nodesize.Allocation, key, value string) (is bool, err error) {
	switch key {
	case "cpus":
		a.Size.CPUs, err = strconv.Atoi(value)
	case "memory":
		a.Size.RealMemory, err = strconv.ParseInt(value, 10, 64)
	case "weight":
		a.Traits.Weight = nodesize.Trait{Value: value, Source: "annotations"}
	case "deadline":
		a.Grace.Deadline.Source = "annotations"
		a.Grace.Deadline.Value, err = readTime(value)
	default:
		return false, nil
	}
	return true, err
}

// tellEvent gives the line that readEvent reads.
func tellEvent(l State, e Event) string {
	for _, m := range moves {
		if reflect.TypeOf(m.usual) != reflect.TypeOf(e) {
			continue
		}
		if t, is := e.(Terminated); is && t.Signal != m.word {
			continue
		}
		usual := reflect.New(reflect.TypeOf(e)).Elem()
		usual.Set(reflect.ValueOf(m.usual))
		if n := usual.FieldByName("Number"); n.IsValid() {
			n.SetInt(int64(openNumber(l, e)))
		}
		line := m.word + tellFields(reflect.ValueOf(e), usual)
		if a, is := e.(Answered); is && a.Node == nil && a.Err == nil && l.Registers && l.Activity != Reaching && l.Activity != Launching {
			line += " no-record"
		}
		return line
	}
	return fmt.Sprintf("%#v", e)
}

func tellAction(a Action) string {
	t := reflect.TypeOf(a)
	word := ""
	for i, r := range t.Name() {
		if i > 0 && unicode.IsUpper(r) {
			word += "-"
		}
		word += string(unicode.ToLower(r))
	}
	if c, is := a.(Change); is {
		word = verbs[c.Verb]
	}
	return word + tellFields(reflect.ValueOf(a), reflect.Zero(t))
}

// tellFields tells the fields that are not as usual.
func tellFields(v, usual reflect.Value) string {
	text := ""
	for i := range v.NumField() {
		name, value := v.Type().Field(i).Name, v.Field(i)
		if !v.Type().Field(i).IsExported() || reflect.DeepEqual(value.Interface(), usual.Field(i).Interface()) {
			continue
		}
		key := cmp.Or(fieldNames[name], strings.ToLower(name))
		if name == "Number" {
			text += fmt.Sprintf(" #%d", value.Int())
			continue
		}
		switch value := value.Interface().(type) {
		case Verb:
		case bool:
			text += " " + key
		case nodesize.Allocation:
			text += tellAllocation(value)
		case *slurm.Node:
			text += tellRecord(value)
		default:
			text += " " + key + "=" + quoted(tellValue(value))
		}
	}
	return text
}

func tellValue(value any) string {
	switch value := value.(type) {
	case []string:
		return strings.Join(value, ",")
	case time.Time:
		return tellTime(value)
	case Stage:
		return stages[value]
	case *confset.Set:
		return tellSet(value)
	case Need:
		return strings.TrimSpace(tellFields(reflect.ValueOf(value), reflect.ValueOf(Need{})))
	case []slurm.Job:
		return fmt.Sprintf("%s/%d", strings.Join(value[0].State, "+"), value[0].ID)
	case InUse:
		return "jobs: " + value.Why
	case nodesize.PodInfoError:
		return "pod: " + value.Error()
	}
	return fmt.Sprint(value)
}

func tellTime(at time.Time) string {
	d := at.Sub(epoch)
	if d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

func tellSet(s *confset.Set) string {
	switch {
	case s == nil:
		return ""
	case s.KeyHash != "":
		return s.Hash + "/" + s.KeyHash
	}
	return s.Hash
}

func tellRecord(n *slurm.Node) string {
	usual := record()
	state := slices.DeleteFunc(slices.Clone(n.State), func(s string) bool { return s == "DYNAMIC_NORM" })
	text := " record=" + strings.Join(state, "+")
	if n.CPUs != usual.CPUs {
		text += fmt.Sprintf(" cpus=%d", n.CPUs)
	}
	if n.Reason != "" {
		text += " reason=" + quoted(n.Reason)
	}
	if n.Weight != 0 {
		text += fmt.Sprintf(" weight=%d", n.Weight)
	}
	if n.Features != nil {
		text += " features=" + strings.Join(n.Features, ",")
	}
	switch start := n.SlurmdStart; {
	case start.IsZero():
		text += " slurmd=unknown"
	case !start.Equal(usual.SlurmdStart.Time):
		text += " slurmd=" + start.Sub(epoch).Truncate(time.Second).String()
	}
	return text
}

func tellAllocation(a nodesize.Allocation) string {
	text := ""
	if a.Size.CPUs != small.CPUs {
		text += fmt.Sprintf(" cpus=%d", a.Size.CPUs)
	}
	if a.Size.RealMemory != small.RealMemory {
		text += fmt.Sprintf(" memory=%d", a.Size.RealMemory)
	}
	if a.Traits.Weight.Given() {
		text += " weight=" + a.Traits.Weight.Value
	}
	if a.Grace.Deadline.Bounded() {
		text += " deadline=" + tellTime(a.Grace.Deadline.Value)
	}
	return text
}

// quoted quotes a value that a reader would divide.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \"\n") {
		return strconv.Quote(value)
	}
	return value
}

// changes tells what is different in the state.
func changes(before, after State) string {
	text := ""
	was, now := view(before), view(after)
	for i := range now {
		if was[i].value != now[i].value {
			text += fmt.Sprintf("  %s: %s\n", now[i].name, cmp.Or(now[i].value, "-"))
		}
	}
	return text
}

// view is the state without its counters, in words.
func view(l State) []struct{ name, value string } {
	type field = struct{ name, value string }
	yes := func(is bool) string {
		if is {
			return "yes"
		}
		return ""
	}
	number := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	revision := func(e *Revision) string {
		if e == nil {
			return ""
		}
		return strings.TrimSpace(tellFields(reflect.ValueOf(*e), reflect.ValueOf(Revision{})))
	}
	result := ""
	if l.Resolved > 0 {
		result = fmt.Sprintf("%d %s", l.Resolved, cmp.Or(l.Result, "is live"))
	}
	taken := ""
	if l.Outcomes.Taken > 0 {
		taken = fmt.Sprintf("%d, read at %s", l.Outcomes.Taken, tellTime(l.Outcomes.ReadAt))
	}
	deadline := ""
	if l.Deadline.Bounded() {
		deadline = tellTime(l.Deadline.Value)
	}
	d := l.Deadlines
	return []field{
		{"phase", string(l.Phase)},
		{"doing", l.Activity.String()},
		{"reason", l.Reason},
		{"held", l.Held},
		{"fault", l.Fault},
		{"refusal", l.Refusal},
		{"main", number(l.Main)},
		{"killed", yes(l.killed)},
		{"starts", number(l.Starts)},
		{"size", strings.TrimSpace(tellAllocation(nodesize.Allocation{Size: l.Size, Traits: l.Traits, Grace: l.Grace}))},
		{"seen by slurmctld", yes(l.seen)},
		{"in service", yes(l.Registers && l.inService())},
		{"stage", stages[l.stage]},
		{"done for", stages[l.acted]},
		{"left", l.Left},
		{"exit status", number(l.Code)},
		{"deadline", deadline},
		{"hastened by", l.HastenedBy},
		{"deadlines", fmt.Sprintf("requeue %v, fail %v, exit %v", d.Requeue, d.Fail, d.Exit)},
		{"reload", l.ConfActivity.String()},
		{"live", tellSet(l.Live)},
		{"good", tellSet(l.Good)},
		{"next", revision(l.Next)},
		{"trying", revision(l.trying)},
		{"refused", revision(l.Refused)},
		{"because", strings.ReplaceAll(l.Why, "\n", "; ")},
		{"not restored", l.NotRestored},
		{"result of request", result},
		{"taken", taken},
		{"refused before slurmctld had it", number(l.Outcomes.Refused)},
		{"rolled back", number(l.Outcomes.RolledBack)},
	}
}
