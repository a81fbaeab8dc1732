package planner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Step is one command of sacctmgr.
type Step struct {
	// Command is as sacctmgr takes it from a person, and Words say what it does.
	Command, Words string
	// Removes says whether entities go.
	Removes bool
}

// mostNames are those of one command: 500 users are some 4 seconds of slurmdbd's, in which it answers nobody else about
// associations.
const mostNames = 500

// group is what one command does for several names.
type group struct {
	verb, entity string
	// options stand before the names' values: Account=a Partition=p.
	options, set string
	words        string
	names        []string
}

// Steps are the plan's commands. Users for whom the same is to be done share one.
func (p *Plan) Steps() []Step {
	var groups []*group
	at := map[string]*group{}
	for i := range p.Changes {
		for _, g := range p.groups(&p.Changes[i]) {
			key := strings.Join([]string{g.verb, g.entity, g.options, g.set, g.words, strconv.Itoa(p.Changes[i].rank)}, "\x00")
			if old := at[key]; old != nil && len(old.names) < mostNames && (g.entity == "user" || g.verb == "delete") {
				old.names = append(old.names, g.names...)
				continue
			}
			at[key] = g
			groups = append(groups, g)
		}
	}
	var all []Step
	for _, g := range latest(groups) {
		all = append(all, g.step())
	}
	return all
}

// latest has coordinators named when all users are there, and removals come last.
func latest(groups []*group) []*group {
	var first, coordinators, removals []*group
	for _, g := range groups {
		switch g.verb {
		case "add coordinator":
			coordinators = append(coordinators, g)
		case "delete":
			removals = append(removals, g)
		default:
			first = append(first, g)
		}
	}
	return append(append(first, coordinators...), removals...)
}

func (g *group) step() Step {
	if g.entity == "user" {
		slices.Sort(g.names)
	}
	var command string
	names := strings.Join(g.names, ",")
	switch g.verb {
	case "add":
		command = fmt.Sprintf("add %s Name=%s %s %s", g.entity, names, g.options, g.set)
	case "modify":
		command = fmt.Sprintf("modify %s where Name=%s %s set %s", g.entity, names, g.options, g.set)
	case "delete":
		command = fmt.Sprintf("delete %s where Name=%s %s", g.entity, names, g.options)
	default: // coordinators
		verb, _, _ := strings.Cut(g.verb, " ")
		command = fmt.Sprintf("%s coordinator %s Names=%s", verb, g.options, names)
	}
	shown := g.names
	if len(shown) > 5 {
		shown = append(slices.Clone(shown[:5]), fmt.Sprintf("and %d more", len(g.names)-5))
	}
	entity, names := g.entity, strings.Join(shown, ", ")
	if len(g.names) > 1 && entity == "user" {
		entity = "users"
	}
	verb := g.verb
	if verb == "delete" {
		verb = "remove"
	}
	words := strings.Join(strings.Fields(verb+" "+entity+" "+names+" "+g.words), " ")
	return Step{Command: strings.Join(fields(command), " "), Words: words, Removes: g.verb == "delete"}
}

// fields drops the empty ones: texts in quotes keep their blanks.
func fields(command string) (all []string) {
	for one := range strings.SplitSeq(command, " ") {
		if one != "" {
			all = append(all, one)
		}
	}
	return all
}

// groups are what a change takes, one for most.
func (p *Plan) groups(change *Change) (all []*group) {
	cluster := "Cluster=" + p.cluster
	add := func(verb, entity, options, set, words string, names ...string) {
		all = append(all, &group{verb, entity, options, set, words, names})
	}
	words := change.words()
	switch change.Kind {
	case QOS:
		preempt, later := change.Set["Preempt"]
		if change.Verb != "add" || !later {
			add(change.Verb, "qos", "", change.settings(), words, change.Name)
			break
		}
		delete(change.Set, "Preempt") // of which the other may come later
		add("add", "qos", "", change.settings(), words, change.Name)
		change.Set["Preempt"] = preempt
		add("modify", "qos", "", "Preempt="+preempt, "Preempt="+preempt, change.Name)
	case Account:
		if change.Verb != "modify" || len(change.Set) > 0 {
			add(change.Verb, "account", cluster, change.settings(), words, change.Name)
		}
		if len(change.gains) > 0 {
			add("add coordinator", "", "Account="+change.Name, "", "as coordinator of account "+change.Name, change.gains...)
		}
		if len(change.loses) > 0 {
			add("delete coordinator", "", "Account="+change.Name, "", "as coordinator of account "+change.Name, change.loses...)
		}
	case Association:
		where, in := cluster, ""
		if !change.whole {
			where, in = cluster+" Account="+change.Account, "in account "+change.Account
		}
		if change.Partition != "" && !change.whole {
			where, in = where+" Partition="+change.Partition, in+" and partition "+change.Partition
		}
		add(change.Verb, "user", where, change.settings(), strings.TrimSpace(in+" "+words), change.Name)
	case User:
		if level, set := change.Set["AdminLevel"]; set {
			add("modify", "user", "", "AdminLevel="+level, "AdminLevel="+level, change.Name)
		}
		if account, set := change.Set["DefaultAccount"]; set {
			add("modify", "user", cluster, "DefaultAccount="+account, "DefaultAccount="+account, change.Name)
		}
	}
	return all
}

// settings are the values in the order of the table.
func (c *Change) settings() string {
	var all []string
	for a := range attributes(c.Kind) {
		if value, set := c.Set[a.Name]; set {
			all = append(all, a.Name+"="+value)
		}
	}
	return strings.Join(all, " ")
}

// words are the values for people, with what they were.
func (c *Change) words() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c.Set)) {
		one := name + "=" + c.Set[name]
		if before := c.Before[name]; c.Verb == "modify" {
			if before == "" {
				before = "nothing"
			}
			one += " (was " + before + ")"
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}
