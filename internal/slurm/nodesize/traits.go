package nodesize

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// Traits are what the pod's labels and annotations say of the node: the fields
// of its record that can be changed while jobs run on it.
type Traits struct {
	// Features is slurm.conf(5)'s Features, in the order of their names.
	Features Trait `json:"features"`
	// Topology is slurm.conf(5)'s Topology (Slurm 25.05 and later).
	Topology Trait `json:"topology"`
	// Weight is slurm.conf(5)'s Weight.
	Weight Trait `json:"weight"`
}

// Trait is one of them and where it was read. Without a source nobody has asked
// for it, and the record's own value is left alone.
type Trait struct {
	Value  string `json:"value"`
	Source string `json:"source,omitempty"`
}

// Given says whether the agent is to set it.
func (t Trait) Given() bool { return t.Source != "" }

// word is the characters of which names consist (slurm.conf(5)).
const word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

// FindTraits reads them from the pod's labels and annotations. The error holds every fault.
func FindTraits(find Finder) (Traits, error) {
	var t Traits
	read := func(trait *Trait, key string, parse func(string) (string, error)) error {
		var found cgroup.Bound[string]
		err := findValue(&found, find, key, parse)
		*trait = Trait(found)
		return err
	}
	return t, errors.Join(
		read(&t.Features, wellknown.Features, parseFeatures),
		read(&t.Topology, wellknown.Topology, parseTopology),
		read(&t.Weight, wellknown.Weight, parseWeight),
	)
}

// MachineTraits are those that a Kubernetes node gives its pods' nodes. The error holds every fault, and
// what is right beside a fault counts.
func MachineTraits(machine string, features []string, topology, weight string) (Traits, error) {
	var t Traits
	source := "Kubernetes node " + machine
	read := func(trait *Trait, text string, parse func(string) (string, error)) error {
		if text == "" {
			return nil
		}
		value, err := parse(text)
		if err != nil {
			return fmt.Errorf("%s: cannot use %q: %w", source, text, err)
		}
		*trait = Trait{value, source}
		return nil
	}
	return t, errors.Join(
		read(&t.Features, strings.Join(features, ","), parseFeatures),
		read(&t.Topology, topology, parseTopology),
		read(&t.Weight, weight, parseWeight),
	)
}

// On adds what the machine gives to what the pod has. A node has the features of both. The pod's own
// topology and weight win.
func (t Traits) On(machine Traits) Traits {
	switch both := t.Features.Given() && machine.Features.Given(); {
	case both && t.Features.Value != "":
		all, _ := parseFeatures(t.Features.Value + "," + machine.Features.Value) // they were parsed
		t.Features = Trait{all, t.Features.Source + " and " + machine.Features.Source}
	case machine.Features.Given():
		t.Features = machine.Features
	}
	if !t.Topology.Given() {
		t.Topology = machine.Topology
	}
	if !t.Weight.Given() {
		t.Weight = machine.Weight
	}
	return t
}

// parseFeatures takes what sbatch(1) --constraint can ask for: names without
// its operators.
func parseFeatures(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	names := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if name == "" || strings.Trim(name, word+"=+/@") != "" {
			return "", fmt.Errorf("want names of letters, digits and -_.=+/@, separated by commas; %q is none", name)
		}
		names[name] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), ","), nil
}

func parseTopology(text string) (string, error) {
	if text == "" || strings.Trim(text, word+":,") != "" {
		return "", errors.New("want topology:unit[:…], several separated by commas, as in default:rack1 (slurm.conf(5), Topology)")
	}
	return text, nil
}

func parseWeight(text string) (string, error) {
	const most = 1<<32 - 3 // two values above are INFINITE and NO_VAL (slurm.h)
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > most {
		return "", fmt.Errorf("want a whole number from 0 to %d", uint32(most))
	}
	return strconv.FormatUint(n, 10), nil
}

// After is what is to be set once the traits were old: one that is not given
// any more goes back to Slurm's default.
func (t Traits) After(old Traits) Traits {
	back := func(now *Trait, before Trait, value string) {
		if before.Given() && !now.Given() {
			*now = Trait{Value: value, Source: "removed from " + strings.TrimPrefix(before.Source, "removed from ")}
		}
	}
	back(&t.Features, old.Features, "")
	back(&t.Topology, old.Topology, "")
	back(&t.Weight, old.Weight, "1")
	return t
}

// Conf is their part of slurmd's --conf.
func (t Traits) Conf() string {
	conf := ""
	add := func(key string, t Trait) {
		if t.Value != "" {
			conf += " " + key + "=" + t.Value
		}
	}
	add("Feature", t.Features)
	add("Weight", t.Weight)
	return conf
}

// Update is what must be changed in a record, in scontrol's words. Both kinds
// of features are set: the active ones must be among the available ones.
func (t Traits) Update(n *slurm.Node) []string {
	var fields []string
	if t.Features.Given() && t.Features.Value != sortedList(n.Features) {
		fields = append(fields, "availablefeatures="+t.Features.Value, "activefeatures="+t.Features.Value)
	}
	if t.Weight.Given() && t.Weight.Value != strconv.Itoa(n.Weight) {
		fields = append(fields, "weight="+t.Weight.Value)
	}
	if t.Topology.Given() && t.Topology.Value != n.Topology {
		fields = append(fields, "topology="+t.Topology.Value)
	}
	return fields
}

func sortedList(names []string) string {
	return strings.Join(slices.Sorted(slices.Values(names)), ",")
}
