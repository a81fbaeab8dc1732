package lifecycle

import (
	"cmp"
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

// formatEvent is the line that readEvent reads as this event.
func formatEvent(l State, e Event) string {
	for _, m := range eventWords {
		if reflect.TypeOf(m.usual) != reflect.TypeOf(e) {
			continue
		}
		if t, is := e.(supervisor.Terminated); is && t.Signal != m.word {
			continue
		}
		usual := reflect.New(reflect.TypeOf(e)).Elem()
		usual.Set(reflect.ValueOf(m.usual))
		if n := usual.FieldByName("Number"); n.IsValid() {
			n.SetInt(int64(openNumber(l, e)))
		}
		line := m.word + formatFields(reflect.ValueOf(e), usual)
		if a, is := e.(node.Answered); is && a.Node == nil && a.Err == nil && l.Registers && l.Activity != supervisor.Reaching && l.Activity != supervisor.Launching {
			line += " no-record"
		}
		return line
	}
	return fmt.Sprintf("%#v", e)
}

// formatAction is an action as a transcript has it.
func formatAction(a Action) string {
	t := reflect.TypeOf(a)
	word := ""
	for i, r := range t.Name() {
		if i > 0 && unicode.IsUpper(r) {
			word += "-"
		}
		word += string(unicode.ToLower(r))
	}
	if c, is := a.(node.Change); is {
		word = verbWords[c.Verb]
	}
	return word + formatFields(reflect.ValueOf(a), reflect.Zero(t))
}

// formatFields are the fields that are not as usual.
func formatFields(v, usual reflect.Value) string {
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
		case node.Verb:
		case bool:
			text += " " + key
		case nodesize.Allocation:
			text += formatAllocation(value)
		case *slurm.Node:
			text += formatRecord(value)
		default:
			text += " " + key + "=" + quoted(formatValue(value))
		}
	}
	return text
}

func formatValue(value any) string {
	switch value := value.(type) {
	case []string:
		return strings.Join(value, ",")
	case time.Time:
		return formatTime(value)
	case deadlines.Stage:
		return stageWords[value]
	case *confset.Set:
		return formatSet(value)
	case node.Need:
		return strings.TrimSpace(formatFields(reflect.ValueOf(value), reflect.ValueOf(node.Need{})))
	case []slurm.Job:
		return fmt.Sprintf("%s/%d", strings.Join(value[0].State, "+"), value[0].ID)
	case conf.InUse:
		return "jobs: " + value.Why
	case nodesize.PodInfoError:
		return "pod: " + value.Error()
	}
	return fmt.Sprint(value)
}

func formatTime(at time.Time) string {
	d := at.Sub(epoch)
	if d < 0 {
		return d.String()
	}
	return "+" + d.String()
}

func formatSet(s *confset.Set) string {
	switch {
	case s == nil:
		return ""
	case s.KeyHash != "":
		return s.Hash + "/" + s.KeyHash
	}
	return s.Hash
}

func formatRecord(n *slurm.Node) string {
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
	if n.Detail().Suspended != nil {
		text += " suspended=" + strings.Join(n.Suspended, ",")
	}
	switch start := n.SlurmdStartAt; {
	case start.IsZero():
		text += " slurmd=unknown"
	case start != usual.SlurmdStartAt:
		text += " slurmd=" + start.Time().Sub(epoch).Truncate(time.Second).String()
	}
	return text
}

func formatAllocation(a nodesize.Allocation) string {
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
		text += " deadline=" + formatTime(a.Grace.Deadline.Value)
	}
	return text
}

// quoted quotes a value that fieldsOf would divide.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \"\n") {
		return strconv.Quote(value)
	}
	return value
}
