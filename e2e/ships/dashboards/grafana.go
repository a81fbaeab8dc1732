package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// object is one of Grafana's JSON. Its keys are written in their order, so that the same table
// makes the same bytes.
type object = map[string]any

// schema is the version of Grafana's model that the files are in; a newer Grafana brings them up. The files have
// all that its JSON schemas require (grafana-foundation-sdk, jsonschema/, of June 2026).
const schema = 39

func (d dashboard) uid() string { return "slurm-" + d.name }

func (d dashboard) file() string { return d.name + ".json" }

func (d dashboard) json() ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(object{
		"uid": d.uid(), "title": d.title, "description": d.about, "tags": []string{"slurm"},
		"schemaVersion": schema, "editable": true, "graphTooltip": 1, "refresh": "1m", "timezone": "browser",
		"time":        object{"from": "now-6h", "to": "now"},
		"annotations": object{"list": []object{}},
		"templating":  object{"list": d.inputs()},
		"links":       d.links(),
		"panels":      d.panels(),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot write the dashboard %s: %w", d.name, err)
	}
	return text.Bytes(), nil
}

// source is the Prometheus that the reader has chosen.
var source = object{"type": "prometheus", "uid": "${datasource}"}

func (d dashboard) inputs() []object {
	list := []object{{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus", "refresh": 1}}
	for _, v := range d.variables {
		definition := fmt.Sprintf("label_values(%s, %s)", v.metric, v.label)
		input := object{
			"name": v.name, "label": v.title, "type": "query", "datasource": source, "definition": definition,
			"query": object{"query": definition, "refId": v.name}, "refresh": 2, "sort": 1,
		}
		if v.all {
			maps.Copy(input, object{"includeAll": true, "multi": true, "current": object{"text": "All", "value": "$__all"}})
		}
		list = append(list, input)
	}
	return list
}

// links lead from each dashboard to the others, and take along what was chosen.
func (d dashboard) links() []object {
	return []object{{
		"title": "Slurm", "type": "dashboards", "tags": []string{"slurm"}, "icon": "external link", "tooltip": "",
		"asDropdown": true, "includeVars": true, "keepTime": true, "targetBlank": false,
	}}
}

const screen = 24

// panels are those of all rows, from the left to the right and from the top to the bottom.
func (d dashboard) panels() (list []object) {
	y := 0
	for _, r := range d.rows {
		list = append(list, object{
			"id": len(list) + 1, "type": "row", "title": r.title, "collapsed": false, "panels": []object{},
			"gridPos": object{"x": 0, "y": y, "w": screen, "h": 1},
		})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.width > screen {
				x, y, height = 0, y+height, 0
			}
			one := p.object()
			one["id"] = len(list) + 1
			one["gridPos"] = object{"x": x, "y": y, "w": p.width, "h": p.height}
			list = append(list, one)
			x, height = x+p.width, max(height, p.height)
		}
		y += height
	}
	return list
}

func (p panel) object() object {
	defaults := object{"min": 0}
	if p.unit != "" {
		defaults["unit"] = p.unit
	}
	if p.bad.set {
		// Grafana colours from a step on: what equals the limit is still good.
		steps := []object{{"color": "green", "value": nil}, {"color": "red", "value": p.bad.value + 0.001}}
		defaults["thresholds"] = object{"mode": "absolute", "steps": steps}
		defaults["color"] = object{"mode": "thresholds"}
	}
	one := object{
		"type": string(p.kind), "title": p.title, "description": p.help, "datasource": source,
		"targets": p.targets(), "fieldConfig": object{"defaults": defaults, "overrides": []object{}},
	}
	switch p.kind {
	case graph:
		custom := object{"fillOpacity": 10, "showPoints": "never"}
		if p.stacked {
			custom = object{"fillOpacity": 60, "showPoints": "never", "stacking": object{"mode": "normal", "group": "A"}}
		}
		defaults["custom"] = custom
		one["options"] = object{
			"legend":  object{"calcs": []string{}, "displayMode": "list", "placement": "bottom", "showLegend": true},
			"tooltip": object{"mode": "multi", "sort": "desc"},
		}
	case figure:
		one["options"] = object{
			"reduceOptions": lastValue, "colorMode": "value", "graphMode": "none", "textMode": "auto", "justifyMode": "auto", "orientation": "auto",
			"wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		}
	case table:
		one["transformations"] = p.columns()
		one["fieldConfig"].(object)["overrides"] = p.overrides()
	}
	return one
}

var lastValue = object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}

// columns make one table of all queries, in which each has a column of its name.
func (p panel) columns() (steps []object) {
	names := object{}
	if len(p.queries) > 1 {
		steps = append(steps, object{"id": "merge", "options": object{}})
		for i, q := range p.queries {
			names["Value #"+refID(i)] = q.legend
		}
	}
	return append(steps, object{"id": "organize", "options": object{"excludeByName": p.excluded(), "renameByName": names}})
}

func (p panel) overrides() []object {
	list := []object{}
	for _, name := range slices.Sorted(maps.Keys(p.units)) {
		list = append(list, object{
			"matcher":    object{"id": "byName", "options": name},
			"properties": []object{{"id": "unit", "value": p.units[name]}},
		})
	}
	return list
}

func refID(i int) string { return string(rune('A' + i)) }

// excluded are the columns that say where a series comes from, which the reader has chosen.
func (p panel) excluded() object {
	hidden := object{}
	for _, name := range slices.Concat(scrapeLabels, p.hidden) {
		hidden[name] = true
	}
	return hidden
}

var scrapeLabels = []string{"Time", "__name__", "container", "endpoint", "instance", "job", "namespace", "slurmlet_dev_cluster", "slurmlet_dev_role"}

func (p panel) targets() (list []object) {
	for i, q := range p.queries {
		target := object{"refId": refID(i), "datasource": source, "expr": q.expr}
		if q.legend != "" {
			target["legendFormat"] = q.legend
		}
		switch p.kind {
		case graph:
			target["range"] = true
		case table:
			target["instant"], target["format"] = true, "table"
		default:
			target["instant"] = true
		}
		list = append(list, target)
	}
	return list
}
