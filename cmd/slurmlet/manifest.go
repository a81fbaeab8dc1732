package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	elasticset "github.com/slurmlet/slurmlet/internal/slurmctld/elastic/planner"
	"github.com/slurmlet/slurmlet/internal/slurmctld/reconfig"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// object is a ConfigMap or Secret of a manifest with files.
type object struct {
	kind, name string
	files      map[string]text
}

// text is one file in a manifest.
type text struct {
	content string
	line    int  // on which its key stands
	literal bool // the file's lines are those of the manifest
}

// isManifest: it has an object of Kubernetes'.
func isManifest(content []byte) bool {
	for _, node := range documents(content) {
		if fields := mapping(node); fields["apiVersion"] != nil && fields["kind"] != nil {
			return true
		}
	}
	return false
}

// documents are those of YAML or JSON, up to the first that is none.
func documents(content []byte) (all []*yaml.Node) {
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var document yaml.Node
		if err := decoder.Decode(&document); err != nil {
			return all
		}
		if len(document.Content) > 0 {
			all = append(all, document.Content[0])
		}
	}
}

// checkDocuments is the error of a manifest that cannot be read.
func checkDocuments(content []byte) error {
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func mapping(n *yaml.Node) map[string]*yaml.Node {
	fields := map[string]*yaml.Node{}
	if n == nil || n.Kind != yaml.MappingNode {
		return fields
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		fields[n.Content[i].Value] = n.Content[i+1]
	}
	return fields
}

// objects are those with files, also of a List.
func objects(node *yaml.Node) (all []object) {
	fields := mapping(node)
	if items := fields["items"]; items != nil {
		for _, item := range items.Content {
			all = append(all, objects(item)...)
		}
		return all
	}
	kind := fields["kind"]
	if kind == nil || kind.Value != "ConfigMap" && kind.Value != "Secret" {
		return nil
	}
	o := object{kind: kind.Value, files: map[string]text{}}
	if name := mapping(fields["metadata"])["name"]; name != nil {
		o.name = name.Value
	}
	for _, key := range []string{"data", "stringData", "binaryData"} {
		for name, value := range mapping(fields[key]) {
			t := text{content: value.Value, line: value.Line, literal: value.Style&yaml.LiteralStyle != 0}
			if key == "binaryData" || key == "data" && o.kind == "Secret" {
				decoded, err := base64.StdEncoding.DecodeString(value.Value)
				if err != nil {
					continue
				}
				t = text{content: string(decoded), line: value.Line}
			}
			o.files[name] = t
		}
	}
	return []object{o}
}

// manifest judges the configurations in the objects of a manifest, as slurmctld's agent completes
// them.
func (j judge) manifest(name string, content []byte) slurmconf.Findings {
	if err := checkDocuments(content); err != nil {
		return slurmconf.Findings{{
			Position: slurmconf.Position{File: name}, Severity: slurmconf.Error, Rule: "read",
			What: "cannot read: " + err.Error(),
		}}
	}
	var all []object
	for _, node := range documents(content) {
		all = append(all, objects(node)...)
	}
	sets := elasticSets(all)
	var findings slurmconf.Findings
	judged := false
	for _, o := range all {
		for _, kind := range []slurmconf.Kind{slurmconf.SlurmConf, slurmconf.SlurmdbdConf} {
			if _, has := o.files[string(kind)]; has {
				judged = true
				findings = append(findings, j.judgeObject(name, o, kind, sets)...)
			}
		}
	}
	if !judged {
		return slurmconf.Findings{{
			Position: slurmconf.Position{File: name}, Severity: slurmconf.Error, Rule: "read",
			What: "no ConfigMap and no Secret has a slurm.conf or slurmdbd.conf",
		}}
	}
	return findings
}

// judgeObject judges the configuration that an object has.
func (j judge) judgeObject(name string, o object, kind slurmconf.Kind, sets *[]reconfig.ElasticSet) slurmconf.Findings {
	texts := map[string]string{}
	for file, t := range o.files {
		texts["etc/slurm/"+file] = t.content
	}
	kinds := []slurmconf.Kind{kind}
	if kind == slurmconf.SlurmConf {
		kinds = slices.DeleteFunc(slices.Clone(slurmconf.Kinds), func(k slurmconf.Kind) bool { return k == slurmconf.SlurmdbdConf })
		complete(overlay{texts: texts}, "etc/slurm", string(slurmconf.SlurmConf), sets)
	}
	findings := j.set(slurmconf.In(overlay{texts: texts}, "/etc/slurm"), kinds)
	for i, f := range findings {
		t, isFile := o.files[f.File]
		what := fmt.Sprintf("%s of %s %s: %s", f.File, o.kind, o.name, f.What)
		at := slurmconf.Position{File: name, Line: o.files[string(kind)].line}
		switch {
		case isFile && t.literal && f.Line > 0:
			at.Line = t.line + f.Line
		case isFile:
			at.Line, what = t.line, fmt.Sprintf("%s of %s %s: %s", f.Position, o.kind, o.name, f.What)
		}
		findings[i].Position, findings[i].What = at, what
	}
	return findings
}

// elasticSets are those of the manifest's ConfigMaps, nil where there are none.
func elasticSets(all []object) *[]reconfig.ElasticSet {
	var sets *[]reconfig.ElasticSet
	for _, o := range all {
		for file, t := range o.files {
			name, isSet := strings.CutSuffix(file, elasticset.Suffix)
			if !isSet || o.kind != "ConfigMap" {
				continue
			}
			if s, err := elasticset.Parse(name, []byte(t.content)); err == nil {
				if sets == nil {
					sets = &[]reconfig.ElasticSet{}
				}
				*sets = append(*sets,
					reconfig.ElasticSet{
						Name: s.Name, Nodes: s.NodeNames.String(), Min: s.Min,
						Features: strings.Split(s.Traits.Features.Value, ","), Gres: s.Size.Gres,
					})
			}
		}
	}
	return sets
}
