package lifecycle

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/lifecycle/deadlines"
	"github.com/slurmlet/slurmlet/internal/lifecycle/node"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// readLife reads the role and the fields of a first state.
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
			l.Unstartable = value
		case "inherits":
			l.Inherits = true
		case "fresh":
			l.Fresh = true
		case "features":
			l.Traits.Features = nodesize.Trait{Value: value, Source: "labels"}
		case "good":
			l.Conf.Good = readSet(value)
		case "next":
			var e Event
			e, err = readEvent(l, "edit "+value)
			next, _ := e.(conf.Revision)
			l.Conf.Next = &next
		default:
			err = fmt.Errorf("no such field of a life: %s", key)
		}
		if err != nil {
			return State{}, err
		}
	}
	l.Deadlines = deadlines.New(grace, l.Lead)
	return l, nil
}

// openNumber is the number that an event without one has.
func openNumber(l State, e Event) int {
	switch e.(type) {
	case supervisor.TimerFired:
		return l.Timer
	case conf.ReloadTimerFired:
		return l.Conf.Timer
	case conf.Checked, conf.LaunchesOver, conf.PlaceEnded, conf.ReconfigureEnded, conf.NodesAsked:
		return l.Conf.Question
	}
	return l.Question
}

// readEvent reads a line as an event that comes to a state.
func readEvent(l State, line string) (Event, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	for _, m := range eventWords {
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

func readField(e reflect.Value, key, value string) error {
	if numbered(key) {
		n, err := strconv.Atoi(key[1:])
		e.FieldByName("Number").SetInt(int64(n))
		return err
	}
	switch at := e.Addr().Interface().(type) {
	case *node.Answered:
		if is, err := readRecord(at, key, value); is || err != nil {
			return err
		}
	case *node.Measured:
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
	case deadlines.Stage:
		i := slices.Index(stageWords[:], value)
		if i < 0 {
			err = fmt.Errorf("no such stage: %s", value)
		}
		read = deadlines.Stage(i)
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
	for _, known := range []error{slurm.ErrBusy, slurm.ErrNoNode, slurm.ErrKept, slurm.ErrUnreachable} {
		if value == known.Error() {
			return known
		}
	}
	if why, is := strings.CutPrefix(value, "jobs: "); is {
		return conf.InUse{Why: why}
	}
	if why, is := strings.CutPrefix(value, "held: "); is {
		return conf.HeldUp{Why: why}
	}
	if why, is := strings.CutPrefix(value, "pod: "); is {
		return nodesize.PodInfoError{Err: errors.New(why)}
	}
	return errors.New(value)
}

func readRecord(e *node.Answered, key, value string) (is bool, err error) {
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
		e.Node.CPUsEffective = e.Node.CPUs
	case "reason":
		e.Node.Reason = value
	case "weight":
		e.Node.Weight, err = strconv.Atoi(value)
	case "features":
		e.Node.Features = strings.Split(value, ",")
	case "suspended":
		e.Node.Suspended = strings.Split(value, ",")
	case "slurmd":
		if value == "unknown" {
			e.Node.SlurmdStartAt = 0
			break
		}
		var at time.Time
		at, err = readTime(value)
		e.Node.SlurmdStartAt = slurm.TimeOf(at)
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
