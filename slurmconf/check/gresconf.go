package check

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// gresConf checks gres.conf as slurmd reads it (src/interfaces/gres.c).
func (c *checker) gresConf() {
	conf := c.whole.Conf(slurmconf.GresConf)
	alike := map[[2]string][]slurmconf.Record{} // by nodes and name
	records := slices.Concat(conf.Records("Name"), conf.Records("NodeName"))
	slices.SortStableFunc(records, func(a, b slurmconf.Record) int { return a.Position().Line - b.Position().Line })
	for _, r := range records {
		name, ok := r.Get("Name")
		if !ok {
			continue
		}
		c.gresRecord(name.Value, r)
		nodes, _ := r.Get("NodeName")
		of := [2]string{nodes.Value, name.Value}
		if before := alike[of]; len(before) > 0 {
			c.gresLike(name.Value, before, r)
		}
		alike[of] = append(alike[of], r)
	}
}

// units matches a Count with one of the units that suffix_mult of src/common/slurm_protocol_api.c knows.
const units = `\s*[+-]?\d+(?i:[kmgtp](ib|b)?)?`

// gresRecord checks a line by itself.
func (c *checker) gresRecord(name string, r slurmconf.Record) {
	count, hasCount := r.Get("Count")
	files, hasFile := r.Get("File")
	if !hasFile {
		files, hasFile = r.Get("Files")
	}
	several, hasSeveral := r.Get("MultipleFiles")
	have := 0
	switch {
	case hasFile && hasSeveral:
		c.add(several.Position(), slurmconf.Error, "gres", "there are File and MultipleFiles", "one of both")
		return
	case hasFile:
		have = c.files(files)
	case hasSeveral:
		if n := c.files(several); n == 1 {
			c.add(several.Position(), slurmconf.Error, "gres", "MultipleFiles is one file", "File, or several files")
		}
		have = 1
	}
	switch {
	case !hasCount:
	case !compiled(units).MatchString(count.Value):
		c.add(count.Position(), slurmconf.Error, "gres", fmt.Sprintf("Count is %q", count.Value), "a number, or one with K, M, G, T or P")
	case integerOf(count.Value) == math.MaxUint64:
		c.add(count.Position(), slurmconf.Error, "gres", fmt.Sprintf("Count is %q", count.Value), "a number that 64 bits hold")
	case strings.HasPrefix(count.Value, "-"):
		c.add(count.Position(), slurmconf.Error, "gres", fmt.Sprintf("Count is %q", count.Value), "at least 0")
	case have > 0 && name != "shard" && name != "mps" && fmt.Sprint(have) != count.Value && compiled(`\d+`).MatchString(count.Value):
		c.add(count.Position(), slurmconf.Error, "gres",
			fmt.Sprintf("Count is %s, and there are %d files", count.Value, have), "as many as files, or none")
	}
	c.gresFlags(r)
}

// integerOf is what strtoull(3) makes of the digits at the beginning.
func integerOf(text string) uint64 {
	n, err := strconv.ParseUint(leading(`\d+`).FindString(text), 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return math.MaxUint64
	}
	return n
}

// files is how many a value has, 0 for one that cannot be read.
func (c *checker) files(pair slurmconf.Pair) int {
	list, err := hostlist.Parse(pair.Value)
	if err != nil {
		c.add(pair.Position(), slurmconf.Error, "hostlist", pair.Key+": "+err.Error(), "")
		return 0
	}
	return list.Len()
}

// environments are the Flags that no_gpu_env excludes.
var environments = []string{"nvidia_gpu_env", "amd_gpu_env", "intel_gpu_env", "opencl_env"}

func (c *checker) gresFlags(r slurmconf.Record) {
	pair, _ := r.Get("Flags")
	flags := pair.List()
	if slices.ContainsFunc(flags, oneOf("no_gpu_env")) && slices.ContainsFunc(flags, oneOf(environments...)) {
		c.add(pair.Position(), slurmconf.Error, "gres",
			"Flags has no_gpu_env and "+strings.Join(slices.DeleteFunc(flags, oneOf("no_gpu_env")), ", "), "one of both")
	}
}

// gresLike checks a line against those before it of the same name and nodes.
func (c *checker) gresLike(name string, before []slurmconf.Record, r slurmconf.Record) {
	has := func(r slurmconf.Record, keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { _, ok := r.Get(key); return ok })
	}
	first, last := before[0], before[len(before)-1]
	for _, keys := range [][]string{{"File", "Files", "MultipleFiles"}, {"Type"}} {
		if has(first, keys...) != has(r, keys...) {
			c.add(r.Position(), slurmconf.Error, "gres",
				fmt.Sprintf("of the lines of %s only some have %s, as that at %s", name, keys[0], first.Position()),
				"it on all of them, or on none")
			return
		}
	}
	if !has(r, "File", "Files", "MultipleFiles", "Type") {
		c.add(r.Position(), slurmconf.Error, "gres",
			fmt.Sprintf("%s is there already, at %s", name, first.Position()), "one line, or Type or File on each")
	}
	c.sameFlags(last, r)
	if name == "gpu" {
		c.sameFiles(before, r)
	}
}

func (c *checker) sameFlags(last, r slurmconf.Record) {
	one, ok := last.Get("Flags")
	other, both := r.Get("Flags")
	if !ok || !both {
		return
	}
	sorted := func(pair slurmconf.Pair) []string {
		return slices.Sorted(slices.Values(strings.Split(strings.ToLower(strings.Join(pair.List(), ",")), ",")))
	}
	if !slices.Equal(sorted(one), sorted(other)) {
		c.add(other.Position(), slurmconf.Error, "gres",
			fmt.Sprintf("Flags is %s, and was %s, at %s", other.Value, one.Value, last.Position()), "the same on all lines of a name")
	}
}

func (c *checker) sameFiles(before []slurmconf.Record, r slurmconf.Record) {
	at := map[string]slurmconf.Position{}
	for _, earlier := range before {
		if pair, ok := earlier.Get("File"); ok {
			if list, err := hostlist.Parse(pair.Value); err == nil {
				for file := range list.All() {
					at[file] = earlier.Position()
				}
			}
		}
	}
	pair, _ := r.Get("File")
	list, err := hostlist.Parse(pair.Value)
	if err != nil {
		return
	}
	for file := range list.All() {
		if earlier, ok := at[file]; ok {
			c.add(pair.Position(), slurmconf.Error, "gres",
				fmt.Sprintf("File has %s, and that at %s has it too", file, earlier), "each file once")
			return
		}
	}
}
