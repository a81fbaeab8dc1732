package gateway

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// ownArgs come last, where sbatch takes the last of a kind.
var ownArgs = []string{"--chdir=/", "--input=/dev/null", "--output=/dev/null", "--error=/dev/null", "--export=NIL"}

const (
	mostArgs = 64
	mostArg  = 4096
	// mostExclude is that of --exclude, whose list may have many of 10,000 nodes. Linux takes 128 KiB.
	mostExclude = 32 << 10
)

// allowed are the options of sbatch(1) that an order may have: what the job wants, and what it is called. It may say nothing of
// files, users, other commands or the environment.
var allowed = []string{
	"account", "begin", "comment", "constraint", "cores-per-socket", "cpus-per-gpu", "cpus-per-task", "deadline", "exclude",
	"exclusive", "gpus", "gpus-per-node", "gpus-per-socket", "gpus-per-task", "gres", "hint", "job-name", "licenses", "mcs-label",
	"mem", "mem-per-cpu", "mem-per-gpu", "mincpus", "nice", "no-requeue", "nodelist", "nodes", "ntasks", "ntasks-per-node",
	"oversubscribe", "partition", "prefer", "priority", "qos", "requeue", "reservation", "sockets-per-node", "spread-job", "switches",
	"threads-per-core", "time", "time-min", "tmp", "wckey",
}

// fixed are options that an order may have with one value alone, which the job has anyway.
var fixed = map[string]string{
	"chdir": "/", "input": "/dev/null", "output": "/dev/null", "error": "/dev/null", "export": "NIL", "parsable": "",
}

var option = regexp.MustCompile(`^--([a-z][a-z-]*)(?:=(.*))?$`)

// checkSubmission refuses an order that wants more than a job that holds.
func checkSubmission(o *wire.Order) error {
	if o.Script != wire.HoldScript {
		return refuse("script %q: the gateway submits %q alone", shortened(o.Script), wire.HoldScript)
	}
	if len(o.Args) > mostArgs {
		return refuse("%d arguments: the gateway takes %d", len(o.Args), mostArgs)
	}
	comments := 0
	for _, arg := range o.Args {
		most := mostArg
		if strings.HasPrefix(arg, "--exclude=") {
			most += mostExclude
		}
		if len(arg) > most || strings.ContainsFunc(arg, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return refuse("argument %q: want %d printable bytes at most", shortened(arg), most)
		}
		parts := option.FindStringSubmatch(arg)
		if parts == nil {
			return refuse("argument %q: want --option or --option=value", shortened(arg))
		}
		name, value := parts[1], parts[2]
		if only, is := fixed[name]; is && value == only {
			continue
		}
		if !slices.Contains(allowed, name) {
			return refuse("argument %q: the gateway takes %s", shortened(arg), strings.Join(allowed, ", "))
		}
		if name == "comment" {
			comments++
			if !strings.HasPrefix(value, wire.GroupComment) {
				return refuse("comment %q: want one that begins with %s", shortened(value), wire.GroupComment)
			}
		}
	}
	if comments != 1 {
		return refuse("%d comments: want one, --comment=%sUID …", comments, wire.GroupComment)
	}
	return nil
}

// shortened is a text for a sentence.
func shortened(text string) string {
	const most = 100
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
