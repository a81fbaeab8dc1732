package devices

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/slurm/gres"
)

// Choice says which generic resources a node is to register (SLURMLET_GRES).
type Choice struct {
	// Auto has all registered that is found. Without it Gres is registered, of which each gpu must have been found.
	Auto bool
	Gres gres.List
}

// ParseChoice reads "auto", "none" or a list of resources.
func ParseChoice(text string) (Choice, error) {
	switch text {
	case "auto":
		return Choice{Auto: true}, nil
	case "none":
		return Choice{}, nil
	}
	g, err := gres.Parse(text)
	if err != nil {
		return Choice{}, fmt.Errorf("want auto, none, or a list: %v", err)
	}
	return Choice{Gres: g}, nil
}

// Plan has the resources that slurmd registers, and the lines of gres.conf for them.
type Plan struct {
	Gres gres.List `json:"gres"`
	// Lines are gres.conf's, Files the device nodes in them.
	Lines []string `json:"lines,omitempty"`
	Files []string `json:"-"`
	// GPUs are those that are registered, with their types there.
	GPUs []GPU `json:"-"`
}

// group is the GPUs of one entry of Gres.
type group struct {
	name string // the type, or none
	gpus []GPU
}

// Plan puts what was found into the words of slurm.conf(5) and gres.conf(5).
// Never more GPUs than were found: asking for more is an error.
func (found Found) Plan(c Choice) (Plan, error) {
	if c.Auto {
		return plan(found.groups(), nil), nil
	}
	groups, err := found.choose(c.Gres)
	if err != nil {
		return Plan{}, err
	}
	return plan(groups, slices.DeleteFunc(slices.Clone(c.Gres), isGPU)), nil
}

func isGPU(r gres.Resource) bool { return r.Name == "gpu" }

// groups sorts by type. Slurm refuses types for some GPUs only, so one that has
// none gets its vendor's name, if others have one.
func (found Found) groups() []group {
	typed := slices.ContainsFunc(found.GPUs, func(g GPU) bool { return g.Type != "" })
	var all []group
	for _, g := range found.GPUs {
		name := g.Type
		if typed && name == "" {
			name = string(g.Vendor)
		}
		i := slices.IndexFunc(all, func(o group) bool { return o.name == name })
		if i < 0 {
			i, all = len(all), append(all, group{name: name})
		}
		all[i].gpus = append(all[i].gpus, g)
	}
	return all
}

// choose finds GPUs for what was asked: those of the same type first, then any,
// because people have names of their own for types.
func (found Found) choose(wanted gres.List) ([]group, error) {
	var exact, free []gres.Resource
	for _, r := range wanted {
		switch {
		case !isGPU(r):
		case found.has(r.Type):
			exact = append(exact, r)
		default:
			free = append(free, r)
		}
	}
	var groups []group
	pool := slices.Clone(found.GPUs)
	for i, r := range append(exact, free...) {
		g := group{name: r.Type}
		g.gpus, pool = take(pool, r.Count, func(g GPU) bool { return i >= len(exact) || strings.EqualFold(g.Type, r.Type) })
		if uint64(len(g.gpus)) < r.Count {
			return nil, fmt.Errorf("%s: the container has not that many: %s", r, found)
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// has says whether a type was found; no type is none.
func (found Found) has(name string) bool {
	return name != "" && slices.ContainsFunc(found.GPUs, func(g GPU) bool { return strings.EqualFold(g.Type, name) })
}

// take picks the first n that fit.
func take(pool []GPU, n uint64, fits func(GPU) bool) (taken, rest []GPU) {
	for _, g := range pool {
		if uint64(len(taken)) < n && fits(g) {
			taken = append(taken, g)
		} else {
			rest = append(rest, g)
		}
	}
	return taken, rest
}

// String says what was found.
func (found Found) String() string {
	if len(found.GPUs) == 0 {
		return "no GPU was found"
	}
	return plan(found.groups(), nil).Gres.String() + " was found"
}

func plan(groups []group, others gres.List) Plan {
	var p Plan
	flags := environment(groups)
	for _, g := range groups {
		p.Gres = append(p.Gres, gres.Resource{Name: "gpu", Type: g.name, Count: uint64(len(g.gpus))})
		for _, files := range runs(g.gpus) {
			p.Lines = append(p.Lines, "Name=gpu"+option("Type", g.name)+files+flags)
		}
		for _, gpu := range g.gpus {
			p.Files = append(p.Files, gpu.Files...)
			p.GPUs = append(p.GPUs, GPU{gpu.Vendor, g.name, gpu.Files})
		}
	}
	for _, r := range others {
		p.Gres = append(p.Gres, r)
		p.Lines = append(p.Lines, "Name="+r.Name+option("Type", r.Type)+option("Count", strconv.FormatUint(r.Count, 10)))
	}
	return p
}

func option(name, value string) string {
	if value == "" {
		return ""
	}
	return " " + name + "=" + value
}

// environment returns the variables from which a job learns its GPUs: the vendor's, where
// there is one vendor; Slurm wants the same for all lines.
func environment(groups []group) string {
	var vendors []Vendor
	for _, g := range groups {
		for _, gpu := range g.gpus {
			if !slices.Contains(vendors, gpu.Vendor) {
				vendors = append(vendors, gpu.Vendor)
			}
		}
	}
	if len(vendors) != 1 {
		return ""
	}
	return option("Flags", string(vendors[0])+"_gpu_env")
}

// runs names the files of several GPUs in one option where their order allows it.
func runs(gpus []GPU) []string {
	var all, run []string
	flush := func() {
		if len(run) > 0 {
			all = append(all, option("File", hostlist(run)))
		}
		run = nil
	}
	for _, g := range gpus {
		if len(g.Files) > 1 {
			flush()
			all = append(all, option("MultipleFiles", strings.Join(g.Files, ",")))
			continue
		}
		run = append(run, g.Files[0])
	}
	flush()
	return all
}

// hostlist folds neighbours, /dev/nvidia[0-3], and keeps the order.
func hostlist(files []string) string {
	var all []string
	for i := 0; i < len(files); {
		prefix, first := split(files[i])
		last := first
		for i++; i < len(files); i++ {
			p, n := split(files[i])
			if p != prefix || n != last+1 {
				break
			}
			last = n
		}
		if last == first {
			all = append(all, files[i-1])
		} else {
			all = append(all, fmt.Sprintf("%s[%d-%d]", prefix, first, last))
		}
	}
	return strings.Join(all, ",")
}

// split cuts a file's number off.
func split(file string) (string, int) {
	prefix := strings.TrimRight(file, "0123456789")
	n, _ := strconv.Atoi(file[len(prefix):]) // every file here ends in a number
	return prefix, n
}
