package papers

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/wellknown"
)

// kubernetesPage is the page that lists labels, annotations, taints, conditions and events.
const kubernetesPage = "docs/reference/kubernetes.md"

// KubernetesPage is the text of the page.
func KubernetesPage() string {
	var b strings.Builder
	b.WriteString("# Labels, annotations, taints, conditions and events\n\nWhat slurmlet and Kubernetes tell each other. internal/kit/wellknown has the table, and this command\nwrites the page: `go test ./e2e/papers -run TestKubernetesPage -update`.\n")
	for _, section := range []struct {
		what wellknown.What
		head string
	}{{wellknown.Label, "Labels"}, {wellknown.Annotation, "Annotations"}, {wellknown.Taint, "Taints"}, {wellknown.Condition, "Conditions of pods"}} {
		fmt.Fprintf(&b, "\n## %s\n| name | on | set by | value | meaning |\n|---|---|---|---|---|\n", section.head)
		for _, k := range wellknown.All {
			if k.What == section.what {
				fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", k.Name, k.On, k.By, k.Value, code(k.Meaning))
			}
		}
	}
	b.WriteString("\n## Events\nThe controller writes them: `kubectl get events --field-selector reason=NameTaken`. [Names of\n" +
		"pods](../run/names-of-pods.md#the-controller) and [Elastic node\nsets](../run/elastic.md#when-a-node-does-not-start) say what to do.\n\n| reason | type | on | meaning |\n|---|---|---|---|\n")
	for _, e := range wellknown.Events {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", e.Reason, e.Type, code(e.On), code(e.Meaning))
	}
	return b.String()
}

// inCode are words of a text that are written as code.
var inCode = regexp.MustCompile(`SLURMLET_\w+|slurmlet\.dev/[\w-]+|machines\.cordon|scaleIn\.safeToEvict`)

func code(text string) string { return inCode.ReplaceAllString(text, "`$0`") }

// written is a key of slurmlet's in a program or a chart.
var written = regexp.MustCompile(`\bslurmlet\.dev/[A-Za-z][\w-]*\b`)

// noKeys are words of slurmlet's that Kubernetes has for something else: the audience of a token, the reporter of an event,
// the mark in /etc/hosts, and the beginning of a Slurm job's comment.
var noKeys = []string{"slurmlet.dev/peers", "slurmlet.dev/controller", "slurmlet.dev/peer", "slurmlet.dev/group"}

// UnknownKeys are keys in the programs and charts below root that wellknown does not list.
func UnknownKeys(root string) (unknown []string, err error) {
	for _, dir := range []string{"agent", "cmd", "internal", "controller", "charts"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".go", ".tpl", ".yaml"}, filepath.Ext(path)) ||
				strings.Contains(path, "testdata") || strings.Contains(path, "/tests/") || strings.Contains(path, "/ci/") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, key := range written.FindAllString(string(text), -1) {
				known := slices.Contains(noKeys, key) || slices.ContainsFunc(wellknown.All, func(k wellknown.Key) bool { return k.Name == key })
				if !known && !slices.Contains(unknown, key) {
					unknown = append(unknown, key)
				}
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return unknown, nil
}
