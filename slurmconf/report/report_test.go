package report

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/slurmconf"
)

var findings = slurmconf.Findings{
	{Position: slurmconf.Position{File: "etc/slurm.conf"}, Severity: slurmconf.Error, Rule: "missing-key", What: "there is no ClusterName", Want: "ClusterName=name"},
	{Position: slurmconf.Position{File: "/etc/a:b,c.conf", Line: 3, Column: 7}, Severity: slurmconf.Warning, Rule: "value", What: "X is \"100%\"\nor so"},
	{Position: slurmconf.Position{File: "my nodes", Line: 9}, Severity: slurmconf.Info, Rule: "value", What: "Y is <1>"},
}

func TestFormats(t *testing.T) {
	for format, want := range map[string]string{
		"text": "etc/slurm.conf: error: there is no ClusterName: want ClusterName=name\n/etc/a:b,c.conf:3:7: warning: X is \"100%\"\nor so\nmy nodes:9: info: Y is <1>\n",
		"github": "::error file=etc/slurm.conf,title=missing-key::there is no ClusterName: want ClusterName=name\n" +
			"::warning file=/etc/a%3Ab%2Cc.conf,line=3,col=7,title=value::X is \"100%25\"%0Aor so\n" +
			"::notice file=my nodes,line=9,title=value::Y is <1>\n",
		"json": `[
  {
    "file": "etc/slurm.conf",
    "severity": "error",
    "rule": "missing-key",
    "what": "there is no ClusterName",
    "want": "ClusterName=name"
  },
  {
    "file": "/etc/a:b,c.conf",
    "line": 3,
    "column": 7,
    "severity": "warning",
    "rule": "value",
    "what": "X is \"100%\"\nor so"
  },
  {
    "file": "my nodes",
    "line": 9,
    "severity": "info",
    "rule": "value",
    "what": "Y is <1>"
  }
]
`,
	} {
		var out strings.Builder
		require.NoError(t, Formats[format](&out, findings))
		assert.Equal(t, want, out.String(), format)
	}
}

// https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
func TestSARIF(t *testing.T) {
	var out strings.Builder
	require.NoError(t, SARIF(&out, findings))
	assert.JSONEq(t, `{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [{
		"tool": {"driver": {"name": "slurmlet check", "informationUri": "https://github.com/slurmlet/slurmlet", "rules": [{"id": "missing-key"}, {"id": "value"}]}},
		"results": [
			{"ruleId": "missing-key", "level": "error", "message": {"text": "there is no ClusterName: want ClusterName=name"},
				"locations": [{"physicalLocation": {"artifactLocation": {"uri": "etc/slurm.conf"}}}]},
			{"ruleId": "value", "level": "warning", "message": {"text": "X is \"100%\"\nor so"},
				"locations": [{"physicalLocation": {"artifactLocation": {"uri": "file:///etc/a:b,c.conf"}, "region": {"startLine": 3, "startColumn": 7}}}]},
			{"ruleId": "value", "level": "note", "message": {"text": "Y is <1>"},
				"locations": [{"physicalLocation": {"artifactLocation": {"uri": "my%20nodes"}, "region": {"startLine": 9}}}]}
		]}]}`, out.String())
}

func TestNothing(t *testing.T) {
	for format, want := range map[string]string{"text": "", "github": "", "json": "[]\n"} {
		var out strings.Builder
		require.NoError(t, Formats[format](&out, nil))
		assert.Equal(t, want, out.String(), format)
	}
	var out strings.Builder
	require.NoError(t, SARIF(&out, nil))
	assert.Contains(t, out.String(), `"results": []`)
}
