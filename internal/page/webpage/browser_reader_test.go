//go:build e2e

package webpage

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// heard is an element as a screen reader has it.
type heard struct {
	Ignored    bool
	Role, Name struct{ Value any }
	Properties []struct {
		Name  string
		Value struct{ Value any }
	}
}

func (h heard) property(name string) any {
	for _, p := range h.Properties {
		if p.Name == name {
			return p.Value.Value
		}
	}
	return nil
}

// hears are all elements that a screen reader has, in their order.
func (p *tab) hears() (all []heard) {
	p.t.Helper()
	var tree struct{ Nodes []heard }
	p.into(p.t, &tree, p.session, "Accessibility.getFullAXTree", map[string]any{})
	return slices.DeleteFunc(tree.Nodes, func(h heard) bool { return h.Ignored })
}

// named are the roles that a reader jumps to, or acts on: nobody knows one without a name.
var named = []string{"RootWebArea", "region", "navigation", "link", "button", "combobox", "textbox", "heading", "image", "columnheader", "rowheader"}

// TestScreenReader: what Chromium tells a screen reader.
func TestScreenReader(t *testing.T) {
	b := openBrowser(t)
	for name, nodes := range map[string]int{"squares": 500, "cards": 3} {
		t.Run(name, func(t *testing.T) {
			s := open(t, sample(nodes, 40))
			p := b.open(t, view{width: 1440, height: 900})
			p.proxied()
			p.visit("http://" + s.address + "/")
			p.until("document.readyState", "complete")
			p.until(body, "Drains and faults")
			roles, level := map[string]int{}, 0.0
			for _, h := range p.hears() {
				role, _ := h.Role.Value.(string)
				roles[role]++
				if slices.Contains(named, role) {
					assert.NotEmpty(t, h.Name.Value, "a %s without a name: %+v", role, h)
				}
				if is, _ := h.property("level").(float64); role == "heading" {
					assert.LessOrEqual(t, is, level+1, "%v is %v levels below the heading before", h.Name.Value, is-level)
					level = is
				}
			}
			for role, least := range map[string]int{"main": 1, "banner": 1, "contentinfo": 1, "navigation": 1, "status": 1, "heading": 8, "region": 8, "columnheader": 20, "rowheader": 20} {
				assert.GreaterOrEqual(t, roles[role], least, "%s among %v", role, roles)
			}
			assert.Equal(t, "en", p.text("document.documentElement.lang"))
			_, err := p.ask(p.session, "Input.dispatchKeyEvent", map[string]any{"type": "rawKeyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9})
			require.NoError(t, err)
			p.until("document.activeElement.textContent", "Skip to the nodes")
			p.until("document.activeElement.checkVisibility() && document.activeElement.getBoundingClientRect().top >= 0", "true")
		})
	}
}

// TestBrowserKeepsTextsIn: what anybody can write stays text in a browser, and runs nothing.
func TestBrowserKeepsTextsIn(t *testing.T) {
	b := openBrowser(t)
	for _, text := range []string{
		`<script>window.broken = 1</script>`, `"><img src=x onerror="window.broken = 1">`, `' onmouseover='window.broken = 1`, `</bdi></td></table><iframe srcdoc="<script>parent.broken = 1</script>">`, `javascript:window.broken=1`,
	} {
		for _, noScript := range []bool{false, true} {
			s := open(t, hostile(text))
			p := b.open(t, view{width: 1440, height: 900, noScript: noScript})
			p.proxied()
			p.visit("http://" + s.address + "/")
			p.until("document.readyState", "complete")
			p.until("document.body.textContent", text)
			p.text(`document.querySelectorAll("[title], a").forEach((e) => e.dispatchEvent(new MouseEvent("mouseover", {bubbles: true})))`)
			assert.Equal(t, "undefined", p.text("typeof window.broken"), text)
			assert.Equal(t, "1 0 0", p.text(`[document.scripts.length, document.images.length, document.querySelectorAll("iframe, object, embed, base, [onerror], [onmouseover], [href^='javascript:']").length].join(" ")`), text)
			assert.Empty(t, b.console, text)
		}
	}
}
