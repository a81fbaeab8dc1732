package charts

import (
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/slurmlet/slurmlet/e2e/papers"
)

// applied is what a command of a paper gives to kubectl apply.
var applied = regexp.MustCompile(`(?s)apply -f - <<'?EOF'?\n(.*?)\n *EOF\n`)

// TestObjectsOfPapers: Kubernetes knows each field of the objects that the papers show, in a block of YAML or in a
// command. OpenShift's kinds are none of Kubernetes'.
func TestObjectsOfPapers(t *testing.T) {
	helmProgram(t)
	api := kubernetes(t)
	all, err := papers.ReadAll("../../..")
	require.NoError(t, err)
	seen := map[any]bool{}
	for _, p := range all {
		var texts []string
		for _, b := range p.Blocks {
			if b.Language == "yaml" {
				texts = append(texts, b.Text)
			}
		}
		for _, m := range applied.FindAllStringSubmatch(strings.Join(p.Lines, "\n")+"\n", -1) {
			indent := len(m[1]) - len(strings.TrimLeft(m[1], " "))
			texts = append(texts, strings.ReplaceAll("\n"+m[1], "\n"+strings.Repeat(" ", indent), "\n"))
		}
		for _, text := range texts {
			for d := yaml.NewDecoder(strings.NewReader(text)); ; {
				var shown any
				if err := d.Decode(&shown); errors.Is(err, io.EOF) {
					break
				} else {
					require.NoError(t, err, "%s:\n%s", p.Path, text)
				}
				object, _ := shown.(node)
				if version, _ := object["apiVersion"].(string); version != "" && !strings.Contains(version, "openshift.io") {
					assert.NoError(t, api.validate(object), "%s:\n%s", p.Path, text)
					seen[object["kind"]] = true
				}
			}
		}
	}
	for _, kind := range []string{"ScaledObject", "HorizontalPodAutoscaler", "StorageClass", "RuntimeClass", "EndpointSlice"} {
		assert.True(t, seen[kind], "no paper shows one of %s", kind)
	}
}
