package report

import (
	"io"
	"net/url"
	"path"
	"slices"

	"github.com/slurmlet/slurmlet/slurmconf"
)

// SARIF is the Static Analysis Results Interchange Format 2.1.0, as far as code
// scanning needs it.
func SARIF(w io.Writer, findings slurmconf.Findings) error {
	r := sarifRun{Results: []sarifResult{}}
	r.Tool.Driver.Name = "slurmlet check"
	r.Tool.Driver.InformationURI = "https://github.com/slurmlet/slurmlet"
	r.Tool.Driver.Rules = []sarifRule{}
	for _, f := range findings {
		r.Results = append(r.Results, resultOf(f))
		if rule := (sarifRule{f.Rule}); !slices.Contains(r.Tool.Driver.Rules, rule) {
			r.Tool.Driver.Rules = append(r.Tool.Driver.Rules, rule)
		}
	}
	return writeJSON(w, sarifLog{"https://json.schemastore.org/sarif-2.1.0.json", "2.1.0", []sarifRun{r}})
}

type sarifLog struct {
	Schema  string     `json:"$schema"`
	Version string     `json:"version"`
	Runs    []sarifRun `json:"runs"`
}

type sarifRun struct {
	Tool struct {
		Driver struct {
			Name           string      `json:"name"`
			InformationURI string      `json:"informationUri"`
			Rules          []sarifRule `json:"rules"`
		} `json:"driver"`
	} `json:"tool"`
	Results []sarifResult `json:"results"`
}

type sarifRule struct {
	ID string `json:"id"`
}

type sarifResult struct {
	RuleID    string          `json:"ruleId"`
	Level     string          `json:"level"`
	Message   sarifMessage    `json:"message"`
	Locations []sarifLocation `json:"locations"`
}

type sarifMessage struct {
	Text string `json:"text"`
}

type sarifLocation struct {
	Physical struct {
		Artifact struct {
			URI string `json:"uri"`
		} `json:"artifactLocation"`
		Region *sarifRegion `json:"region,omitempty"`
	} `json:"physicalLocation"`
}

// sarifRegion: a line or column of 0 is none.
type sarifRegion struct {
	StartLine   int `json:"startLine"`
	StartColumn int `json:"startColumn,omitempty"`
}

func resultOf(f slurmconf.Finding) sarifResult {
	level := map[slurmconf.Severity]string{slurmconf.Info: "note", slurmconf.Warning: "warning", slurmconf.Error: "error"}[f.Severity]
	var at sarifLocation
	at.Physical.Artifact.URI = uri(f.File)
	if f.Line > 0 {
		at.Physical.Region = &sarifRegion{f.Line, f.Column}
	}
	return sarifResult{f.Rule, level, sarifMessage{said(f)}, []sarifLocation{at}}
}

// uri: a relative one is below the repository.
func uri(file string) string {
	escaped := (&url.URL{Path: file}).EscapedPath()
	if path.IsAbs(file) {
		return "file://" + escaped
	}
	return escaped
}
