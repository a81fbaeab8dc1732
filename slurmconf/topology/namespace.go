package topology

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// CheckNamespace finds what slurmd cannot read in a namespace.yaml, which
// namespace/linux has.
func CheckNamespace(f *slurmconf.File) slurmconf.Findings {
	r := reader{file: f}
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(f.String()), &document); err != nil {
		r.syntax(err)
		return r.findings
	}
	if len(document.Content) == 0 {
		r.note(&document, "the file is empty", "defaults: and node_confs:")
		return r.findings
	}
	fields := r.fields(document.Content[0], "the file")
	if defaults := fields["defaults"]; defaults != nil {
		r.namespace(defaults)
	}
	if nodes := fields["node_confs"]; nodes != nil {
		for _, n := range r.oneOrMore(nodes, "node_confs") {
			r.nodeNamespace(n)
		}
	}
	for i := range r.findings {
		r.findings[i].Rule = "namespace"
	}
	return r.findings
}

func (r *reader) nodeNamespace(n *yaml.Node) {
	of := r.fields(n, "one of node_confs")
	if options := of["options"]; options != nil {
		r.namespace(options)
	}
	nodes := of["nodes"]
	if nodes == nil {
		return
	}
	expression := nodes.Value
	if nodes.Kind == yaml.SequenceNode {
		expression = r.list(nodes)
	}
	if _, err := hostlist.Parse(expression); err != nil {
		r.note(nodes, "nodes: "+err.Error(), "a hostlist")
	}
}

// namespace checks the options that are numbers.
func (r *reader) namespace(n *yaml.Node) {
	of := r.fields(n, "the options of a namespace")
	for _, key := range []string{"clone_ns_script_wait", "clone_ns_epilog_wait"} {
		value := of[key]
		if value == nil {
			continue
		}
		if seconds := strings.TrimSpace(r.text(value, key)); strings.Trim(seconds, "0123456789") != "" && !isNumber(seconds) {
			r.note(value, fmt.Sprintf("%s is %q", key, seconds), "a number of seconds")
		}
	}
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}
