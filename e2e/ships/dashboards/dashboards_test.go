package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const dir = "../../../charts/slurm/dashboards"

func TestTheFilesAreTheTables(t *testing.T) {
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, write(dir))
	}
	made := t.TempDir()
	require.NoError(t, write(made))
	want, have := contents(t, made), contents(t, dir)
	for name := range have {
		assert.Contains(t, want, name, "no table makes it: remove it")
	}
	for name, text := range want {
		if have[name] != text { // too long to be shown
			t.Errorf("%s is not what its table makes: make charts UPDATE=1 writes it", name)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	all := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		require.NoError(t, err)
		all[f.Name()] = string(text)
	}
	return all
}

// TestTables: no panel is wider than the screen, without a query, or without a title.
func TestTables(t *testing.T) {
	names := map[string]bool{}
	for _, d := range dashboards {
		assert.False(t, names[d.name], d.name)
		names[d.name] = true
		for _, r := range d.rows {
			for _, p := range r.panels {
				assert.NotEmpty(t, p.title, "%s, %s", d.name, r.title)
				assert.NotEmpty(t, p.queries, p.title)
				assert.True(t, p.width > 0 && p.width <= screen && p.height > 0, "%s: %d wide, %d high", p.title, p.width, p.height)
				assert.True(t, p.kind == table || p.unit != "", "%s has no unit", p.title)
			}
		}
	}
}

// grafanaPanel is what Grafana reads of a panel's place and meaning.
type grafanaPanel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ X, Y, W, H int }
	Targets []struct {
		RefID      string
		Expr       string
		Datasource struct{ UID string }
	}
	FieldConfig struct {
		Defaults  struct{ Unit string }
		Overrides []struct{ Properties []struct{ ID, Value string } }
	}
}

// units are those of Grafana's that the panels use (packages/grafana-data/src/valueFormats/categories.ts).
var units = []string{"", "short", "bytes", "Bps", "s", "percentunit", "reqps", "dateTimeFromNow"}

// usedVariable is one in a query: Grafana's own begin with two underscores.
var usedVariable = regexp.MustCompile(`\$\{?([a-zA-Z_]+)`)

// TestGrafanaTakesTheFiles holds what Grafana takes without a word and shows wrongly.
func TestGrafanaTakesTheFiles(t *testing.T) {
	for name, text := range contents(t, dir) {
		t.Run(name, func(t *testing.T) {
			var d struct {
				UID        string
				Tags       []string
				Links      []struct{ Tags []string }
				Templating struct {
					List []struct{ Name, Type, Definition string }
				}
				Panels []grafanaPanel
			}
			require.NoError(t, json.Unmarshal([]byte(text), &d))
			assert.Less(t, len(d.UID), 41, "Grafana refuses a longer uid")
			for _, l := range d.Links {
				assert.Subset(t, d.Tags, l.Tags, "a link that finds nothing")
			}
			known := []string{"__rate_interval", "__range", "__interval"}
			require.Equal(t, "datasource", d.Templating.List[0].Type)
			for _, v := range d.Templating.List {
				for _, used := range usedVariable.FindAllStringSubmatch(v.Definition, -1) {
					assert.Contains(t, known, used[1], "$%s is asked for before that", v.Name)
				}
				assert.NotContains(t, known, v.Name)
				known = append(known, v.Name)
			}
			ids, places := map[int]bool{}, map[string]string{}
			for _, p := range d.Panels {
				assert.False(t, ids[p.ID] || p.ID == 0, "%s: the id %d", p.Title, p.ID)
				ids[p.ID] = true
				p.check(t, known)
				for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
					for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
						place := fmt.Sprint(x, " ", y)
						assert.Empty(t, places[place], "%s lies on another panel", p.Title)
						places[place] = p.Title
					}
				}
			}
		})
	}
}

func (p grafanaPanel) check(t *testing.T, variables []string) {
	assert.Contains(t, []string{"row", "stat", "table", "timeseries"}, p.Type, p.Title)
	assert.True(t, p.GridPos.X >= 0 && p.GridPos.W > 0 && p.GridPos.X+p.GridPos.W <= screen && p.GridPos.H > 0, "%s: %+v", p.Title, p.GridPos)
	assert.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
	assert.Contains(t, units, p.FieldConfig.Defaults.Unit, p.Title)
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			assert.Equal(t, "unit", property.ID, p.Title)
			assert.Contains(t, units, property.Value, p.Title)
		}
	}
	var refs []string
	for _, target := range p.Targets {
		assert.Equal(t, "${datasource}", target.Datasource.UID, p.Title)
		assert.NotContains(t, refs, target.RefID, p.Title)
		refs = append(refs, target.RefID)
		for _, used := range usedVariable.FindAllStringSubmatch(target.Expr, -1) {
			assert.Contains(t, variables, used[1], "%s asks for a variable that there is not", p.Title)
		}
	}
}
