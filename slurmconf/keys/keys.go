// Package keys knows the keys that each version of Slurm reads from slurm.conf
// and the files of its family, as Slurm's own parser has them, and the names of its
// plugins.
package keys

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/slurmlet/slurmlet/slurmconf"
)

//go:generate sh -c "go run ../internal/keytable \"$SLURM_SOURCES\" > keys.txt.new && mv keys.txt.new keys.txt"

//go:embed keys.txt
var text string

// Versions are those of Slurm that are known, the oldest first.
var Versions = []string{"24.11", "25.05", "25.11", "26.05"}

// Type is how Slurm's parser reads a value, before anything asks for it.
type Type string

// The types, by their names in Slurm's parse_config.h. A value that is not of its
// type is refused.
const (
	String  Type = "string"
	Bool    Type = "boolean" // yes, up, true, 1, or no, down, false, 0
	Uint16  Type = "uint16"
	Uint32  Type = "uint32"
	Uint64  Type = "uint64"
	Float   Type = "float"
	List    Type = "array" // may be set more than once, or begins a record
	Defunct Type = "defunct"

	plugin Type = "plugin" // no key: see Plugins
)

// Key is a key of a file, or of a record in it.
type Key struct {
	// Name is as Slurm's source and manual write it.
	Name string
	Type Type
	// Since and Until are of Versions: the first and the last that read it.
	Since, Until string
}

// In says whether a version reads the key.
func (k Key) In(version string) bool {
	at := slices.Index(Versions, version)
	return slices.Index(Versions, k.Since) <= at && at <= slices.Index(Versions, k.Until)
}

// Lookup finds a key of a file, or of a record that begins with that key; capitals
// do not matter. Of a key whose type has changed it is the version's, else the
// last one.
func Lookup(version string, file slurmconf.Kind, record, name string) (Key, bool) {
	all := parsed()[heading{file, strings.ToLower(record)}][strings.ToLower(name)]
	for _, k := range all {
		if k.In(version) {
			return k, true
		}
	}
	if len(all) == 0 {
		return Key{}, false
	}
	return all[len(all)-1], true
}

// Of are the keys that a version reads from a file, or from a record in it. It is
// empty for files that are not of Slurm's usual grammar.
func Of(version string, file slurmconf.Kind, record string) (all []Key) {
	for _, keys := range parsed()[heading{file, strings.ToLower(record)}] {
		for _, k := range keys {
			if k.In(version) {
				all = append(all, k)
			}
		}
	}
	slices.SortFunc(all, func(a, b Key) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Plugins are those that a version has of a kind ("select"), without the kind.
func Plugins(version, kind string) (names []string) {
	for _, k := range Of(version, pluginNames, "") {
		if name, ok := strings.CutPrefix(k.Name, kind+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

// pluginNames is the heading of the plugins' names.
const pluginNames slurmconf.Kind = "plugins"

type heading struct {
	file   slurmconf.Kind
	record string
}

// parsed reads the table when it is first asked for.
var parsed = sync.OnceValue(func() map[heading]map[string][]Key {
	tables := map[heading]map[string][]Key{}
	var current map[string][]Key
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case !strings.HasPrefix(line, "\t"):
			h := heading{file: slurmconf.Kind(fields[0])}
			if len(fields) > 1 {
				h.record = strings.ToLower(fields[1])
			}
			current = map[string][]Key{}
			tables[h] = current
		default:
			name := strings.ToLower(fields[0])
			current[name] = append(current[name], parseKey(fields))
		}
	}
	return tables
})

// parseKey reads a line: a name, a type, and the versions if not all have it.
func parseKey(fields []string) Key {
	k := Key{fields[0], Type(fields[1]), Versions[0], Versions[len(Versions)-1]}
	if len(fields) > 2 {
		k.Since, k.Until, _ = strings.Cut(fields[2], "-")
	}
	return k
}
