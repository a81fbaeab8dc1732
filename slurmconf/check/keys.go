package check

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/keys"
)

// strict are the files in which an unknown key ends the daemon that reads them.
var strict = []slurmconf.Kind{slurmconf.SlurmConf, slurmconf.CgroupConf, slurmconf.GresConf, slurmconf.TopologyConf, slurmconf.SlurmdbdConf}

// keysAndValues checks that the keys of a file are known, and their values of the
// right type and among those that are allowed.
func (c *checker) keysAndValues(kind slurmconf.Kind) {
	if len(keys.Of(c.Version, kind, "")) == 0 || kind == slurmconf.TopologyConf && c.hasTopologyYAML() {
		return // Of another grammar, or of no reader.
	}
	for line := range c.whole.Conf(kind).Lines() {
		record := ""
		for i, pair := range line.Pairs {
			c.pair(kind, record, pair)
			c.ofDefault(record, pair)
			if i == 0 && kind.IsRecord(pair.Key) {
				record = pair.Key
			}
		}
	}
}

func (c *checker) pair(kind slurmconf.Kind, record string, pair slurmconf.Pair) {
	key, known := c.lookup(kind, record, pair.Key)
	switch {
	case !known:
		c.unknown(kind, record, pair)
	case !key.In(c.Version):
		c.add(pair.Line().Position(), c.severityOf(kind), "unknown-key",
			fmt.Sprintf("%s is not known to Slurm %s", pair.Key, c.Version), "Slurm "+versionsOf(key))
	case key.Type == keys.Defunct:
		c.add(pair.Line().Position(), slurmconf.Warning, "defunct-key",
			pair.Key+" has no effect any more, and will be refused by a later Slurm", "a configuration without it")
	default:
		c.value(kind, record, key, pair)
	}
}

// ofDefault: what each node has for itself, no DEFAULT line can say.
func (c *checker) ofDefault(record string, pair slurmconf.Pair) {
	names := pair.Line().Pairs[0]
	if strings.EqualFold(record, "NodeName") && strings.EqualFold(names.Value, "DEFAULT") &&
		oneOf("NodeAddr", "NodeHostname", "BcastAddr")(pair.Key) {
		c.add(pair.Position(), slurmconf.Error, "default", pair.Key+" stands behind NodeName=DEFAULT", "it on the nodes' own lines")
	}
}

// lookup: job_container.conf takes the keys of its records on lines of their own
// too, and behind BasePath.
func (c *checker) lookup(kind slurmconf.Kind, record, name string) (keys.Key, bool) {
	key, known := keys.Lookup(c.Version, kind, record, name)
	if !known && kind == slurmconf.JobContainerConf {
		return keys.Lookup(c.Version, kind, "NodeName", name)
	}
	return key, known
}

func (c *checker) unknown(kind slurmconf.Kind, record string, pair slurmconf.Pair) {
	what := pair.Key + " is not a key of " + string(kind)
	if record != "" {
		what = fmt.Sprintf("%s is not a key of a %s line", pair.Key, record)
	}
	severity, at := c.severityOf(kind), pair.Line().Position()
	if !c.hasRoom(at, severity) {
		c.countFinding(at, severity)
		return
	}
	c.add(at, severity, "unknown-key", what, c.meant(kind, record, pair))
}

// meant is what somebody may have wanted to write in the place of an unknown key.
func (c *checker) meant(kind slurmconf.Kind, record string, pair slurmconf.Pair) string {
	if strings.EqualFold(pair.Key, "Include") {
		return "Include " + pair.Value + ", with white space in the place of the ="
	}
	if near := nearest(pair.Key, keys.Of(c.Version, kind, record)); near != "" {
		return near
	}
	if record != "" || kind != slurmconf.SlurmConf {
		return ""
	}
	for _, of := range []string{"NodeName", "PartitionName"} {
		if key, known := keys.Lookup(c.Version, kind, of, pair.Key); known && key.In(c.Version) {
			return fmt.Sprintf(`it on a %s line; one that goes on ends in a \`, of)
		}
	}
	return ""
}

func (c *checker) severityOf(kind slurmconf.Kind) slurmconf.Severity {
	_, tmpfs := c.usesTmpfs()
	switch {
	case slices.Contains(strict, kind), kind == slurmconf.JobContainerConf &&
		tmpfs, kind == slurmconf.AcctGatherConf && c.conf != nil && !c.gathersOwn():
		return slurmconf.Error
	default:
		return slurmconf.Warning
	}
}

func versionsOf(key keys.Key) string {
	switch {
	case key.Since == keys.Versions[0]:
		return key.Until + " or older"
	case key.Until == keys.Versions[len(keys.Versions)-1]:
		return key.Since + " or newer"
	default:
		return key.Since + " to " + key.Until
	}
}

// value checks a value by the key's type, as Slurm's parser does, and then by what
// the daemons say to it.
func (c *checker) value(kind slurmconf.Kind, record string, key keys.Key, pair slurmconf.Pair) {
	if found := ofType(key.Type, pair); found != nil {
		if mebibytes(key.Name) {
			found.Want = inMebibytes(pair.Value, found.Want)
		}
		c.find(*found)
		return
	}
	if record == "" {
		c.removed(kind, pair)
	}
	name := strings.ToLower(key.Name)
	if record != "" {
		name = strings.ToLower(record) + " " + name
	}
	c.checkBounds(kind, name, pair)
	if rule, ok := ruleFor(kind, name); ok {
		for _, found := range rule.judge(c.Version, pair) {
			if c.isUnused(record, pair) {
				found.Severity = min(found.Severity, slurmconf.Warning)
			}
			c.find(found)
		}
	}
}

// mebibytes says whether a key counts memory or disk.
func mebibytes(key string) bool {
	return strings.Contains(key, "Mem") && !strings.Contains(key, "Swappiness") || key == "TmpDisk"
}

// inMebibytes is a number with a unit as Slurm wants it.
func inMebibytes(value, otherwise string) string {
	number, unit := strings.TrimRight(value, "iIbB"), uint64(0)
	for name, size := range map[string]uint64{"m": 1, "g": 1 << 10, "t": 1 << 20} {
		if short, ok := strings.CutSuffix(strings.ToLower(number), name); ok {
			number, unit = short, size
		}
	}
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil || unit == 0 {
		return otherwise
	}
	return fmt.Sprintf("a number of MiB: %d", n*unit)
}

func ofType(t keys.Type, pair slurmconf.Pair) *slurmconf.Finding {
	var err error
	switch t {
	case keys.Bool:
		_, err = pair.Bool()
	case keys.Uint16:
		_, err = pair.Uint(math.MaxUint16)
	case keys.Uint32:
		_, err = pair.Uint(math.MaxUint32)
	case keys.Uint64:
		_, err = pair.Uint(math.MaxUint64)
	case keys.Float:
		if _, e := strconv.ParseFloat(strings.TrimSpace(pair.Value), 64); e != nil &&
			!strings.EqualFold(pair.Value, "UNLIMITED") && !strings.EqualFold(pair.Value, "INFINITE") {
			return &slurmconf.Finding{
				Position: pair.Position(), Severity: slurmconf.Error, Rule: "value",
				What: fmt.Sprintf("%s is %q", pair.Key, pair.Value), Want: "a number",
			}
		}
	}
	if finding, ok := err.(slurmconf.Finding); ok { //nolint:errorlint // Bool and Uint promise it.
		return &finding
	}
	return nil
}
