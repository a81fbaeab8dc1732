//go:build e2e

package webpage

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// browser is a headless Chromium, asked by the DevTools protocol over two pipes.
type browser struct {
	to  *os.File
	own sync.Mutex
	// answers are waited for by the numbers of their questions, and console has what pages have
	// reported: errors, and what the policy has refused.
	number  int
	answers map[int]chan message
	console []string
}

type message struct {
	ID     int             `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
	Session string `json:"sessionId,omitempty"`
}

// browserLimit is for a busy machine that starts a browser.
const browserLimit = time.Minute

func openBrowser(t *testing.T) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	require.NoError(t, err, "make web installs Debian's chromium")
	from, itsOut, err := os.Pipe()
	require.NoError(t, err)
	itsIn, to, err := os.Pipe()
	require.NoError(t, err)
	c := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir())
	c.ExtraFiles = []*os.File{itsIn, itsOut}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	require.NoError(t, c.Start())
	_ = errors.Join(itsIn.Close(), itsOut.Close())
	b := &browser{to: to, answers: map[int]chan message{}}
	go b.listen(from)
	t.Cleanup(func() {
		_ = to.Close()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
		_ = from.Close()
	})
	return b
}

func (b *browser) listen(from *os.File) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := in.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.own.Lock()
		switch answer := b.answers[m.ID]; {
		case m.ID != 0 && answer != nil:
			answer <- m
		case m.Method == "Log.entryAdded", m.Method == "Runtime.exceptionThrown":
			b.console = append(b.console, string(m.Params))
		}
		b.own.Unlock()
	}
}

func (b *browser) ask(session, method string, params any) (json.RawMessage, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	answer := make(chan message, 1)
	b.own.Lock()
	b.number++
	m := message{ID: b.number, Method: method, Params: text, Session: session}
	b.answers[m.ID] = answer
	text, err = json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.own.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		return m.Result, nil
	case <-time.After(browserLimit):
		return nil, fmt.Errorf("%s: no answer", method)
	}
}

// tab is a page of the browser.
type tab struct {
	*browser
	t       *testing.T
	session string
}

// view is how a tab looks.
type view struct {
	width, height int
	dark, phone   bool
	noScript      bool
}

func (b *browser) open(t *testing.T, v view) *tab {
	t.Helper()
	var made struct {
		ID string `json:"targetId"`
	}
	b.into(t, &made, "", "Target.createTarget", map[string]any{"url": "about:blank"})
	var attached struct {
		Session string `json:"sessionId"`
	}
	b.into(t, &attached, "", "Target.attachToTarget", map[string]any{"targetId": made.ID, "flatten": true})
	p := &tab{b, t, attached.Session}
	scheme := "light"
	if v.dark {
		scheme = "dark"
	}
	for method, params := range map[string]any{
		"Page.enable": nil, "Runtime.enable": nil, "Log.enable": nil, "Network.enable": nil,
		"Emulation.setEmulatedMedia":           map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}},
		"Emulation.setDeviceMetricsOverride":   map[string]any{"width": v.width, "height": v.height, "deviceScaleFactor": 1, "mobile": v.phone},
		"Emulation.setScriptExecutionDisabled": map[string]any{"value": v.noScript},
		"Emulation.setFocusEmulationEnabled":   map[string]any{"enabled": true},
	} {
		if params == nil {
			params = map[string]any{}
		}
		_, err := b.ask(p.session, method, params)
		require.NoError(t, err)
	}
	return p
}

func (b *browser) into(t *testing.T, result any, session, method string, params any) {
	t.Helper()
	text, err := b.ask(session, method, params)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, result))
}

// proxied has a proxy name alice as the reader from now on.
func (p *tab) proxied() {
	p.t.Helper()
	_, err := p.ask(p.session, "Network.setExtraHTTPHeaders", map[string]any{"headers": map[string]any{userHeader: "alice"}})
	require.NoError(p.t, err)
}

func (p *tab) visit(address string) {
	p.t.Helper()
	_, err := p.ask(p.session, "Page.navigate", map[string]any{"url": address})
	require.NoError(p.t, err)
}

// text is what an expression gives. DevTools may run it where pages may run no script.
func (p *tab) text(expression string) string {
	p.t.Helper()
	var r struct {
		Result struct {
			Value any `json:"value"`
		} `json:"result"`
	}
	p.into(p.t, &r, p.session, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true})
	return fmt.Sprint(r.Result.Value)
}

func (p *tab) until(expression, want string) {
	p.t.Helper()
	have := ""
	require.Eventually(p.t, func() bool {
		have = p.text(expression)
		return strings.Contains(have, want)
	}, browserLimit, 50*time.Millisecond, "%s has no %q", expression, want)
}

// shoot writes the whole page to bin/web/NAME.png, for people.
func (p *tab) shoot(name string, v view) {
	p.t.Helper()
	height := min(16000, atLeast(p.text("document.documentElement.scrollHeight"), v.height))
	_, err := p.ask(p.session, "Emulation.setDeviceMetricsOverride", map[string]any{"width": v.width, "height": height, "deviceScaleFactor": 1, "mobile": v.phone})
	require.NoError(p.t, err)
	var shot struct {
		Data string `json:"data"`
	}
	p.into(p.t, &shot, p.session, "Page.captureScreenshot", map[string]any{"format": "png"})
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(p.t, err)
	dir := filepath.Join("..", "..", "bin", "web")
	require.NoError(p.t, os.MkdirAll(dir, 0o755))
	require.NoError(p.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644))
}

func atLeast(text string, least int) int {
	n := 0
	_, _ = fmt.Sscan(text, &n)
	return max(n, least)
}

// drain has a node drained, and a job started on another one.
func drain(f *clusterview.View) {
	n := &f.Nodes[3]
	n.State, n.Reason = []string{"IDLE", "DRAIN"}, "fan <b>is</b> loud"
	f.Jobs = clusterview.JobsOf(slurm.Job{ID: 4242, Tasks: 1, Name: "<script>alert(1)</script>", User: "zoe", State: []string{"RUNNING"}, NodeList: f.Nodes[1].Name, Start: ago(time.Second), Partitions: []string{"cpu"}})
	f.Readings[clusterview.FamilyNodes] = clusterview.Reading{At: sampleTime.Add(time.Minute)}
}

const body = "document.body.innerText"

// TestBrowser: the page in a real browser.
func TestBrowser(t *testing.T) {
	b := openBrowser(t)
	desk := view{width: 1440, height: 900}

	t.Run("a reader is named, and sees a drain and a job without loading the page", func(t *testing.T) {
		facts := sample(12, 40)
		s := open(t, facts)
		p := b.open(t, desk)
		p.visit("http://" + s.address + "/")
		p.until(body, "whom the proxy names")
		p.until("document.getElementById('live').className", "live")
		require.NotContains(t, p.text(body), "cpu-0003")
		p.proxied()
		p.visit("http://" + s.address + "/")
		p.until(body, "cpu-0003")
		p.until("document.getElementById('live').className", "live")
		p.text("window.mark = 'not loaded anew'; document.querySelector('#jobs .scroll').focus()")
		next := sample(12, 40)
		drain(next.View)
		s.tell(next, nil)
		p.until(body, "fan <b>is</b> loud")
		p.until(body, "<script>alert(1)</script>")
		require.Equal(t, "not loaded anew", p.text("window.mark"))
		require.Equal(t, "region", p.text("document.activeElement.getAttribute('role')"), "the focus stays where it was")
		require.Empty(t, b.console, "no error, and nothing that the policy refuses")
	})
	t.Run("a reader without a script", func(t *testing.T) {
		s := open(t, sample(12, 40))
		v := desk
		v.noScript = true
		p := b.open(t, v)
		p.proxied()
		p.visit("http://" + s.address + "/")
		p.until("document.body.textContent", "cpu-0003")
		require.Contains(t, p.text("document.body.textContent"), "loads again every")
		p.visit("http://" + s.address + "/?state=RUNNING&user=alice#jobs")
		p.until("document.querySelectorAll('.jobs tbody tr').length > 0 && [...document.querySelectorAll('.jobs tbody tr td:nth-child(3)')].every((td) => td.textContent === 'alice')", "true")
	})
	t.Run("a reader without a script sees a drain and a job when the page loads again", func(t *testing.T) {
		s := open(t, sample(12, 40))
		v := desk
		v.noScript = true
		p := b.open(t, v)
		p.proxied()
		p.visit("http://" + s.address + "/")
		p.until("document.body.textContent", "cpu-0003")
		next := sample(12, 40)
		drain(next.View)
		s.tell(next, nil)
		p.until("document.body.textContent", "fan <b>is</b> loud")
		p.until("document.body.textContent", "<script>alert(1)</script>")
	})
	t.Run("contrast", func(t *testing.T) {
		s := open(t, sample(12, 40))
		for _, dark := range []bool{false, true} {
			v := desk
			v.dark = dark
			p := b.open(t, v)
			p.proxied()
			p.visit("http://" + s.address + "/")
			p.until(body, "cpu-0003")
			require.Empty(t, p.text(contrast), "texts with a contrast below 4.5 (dark: %v)", dark)
		}
	})
	for name, c := range map[string]struct {
		view
		nodes, jobs int
	}{
		"light":        {desk, 12, 300},
		"dark":         {view{width: 1440, height: 900, dark: true}, 12, 300},
		"nodes-3":      {desk, 3, 10},
		"nodes-500":    {desk, 500, 2000},
		"nodes-10000":  {view{width: 1920, height: 1080, dark: true}, 10_000, 20_000},
		"phone":        {view{width: 390, height: 844, phone: true}, 12, 300},
		"phone-10000":  {view{width: 390, height: 844, phone: true}, 10_000, 20_000},
		"wall-display": {view{width: 3840, height: 2160, dark: true}, 2000, 5000},
	} {
		t.Run("screenshot "+name, func(t *testing.T) {
			s := open(t, sample(c.nodes, c.jobs))
			p := b.open(t, c.view)
			p.proxied()
			p.visit("http://" + s.address + "/")
			p.until(body, "Drains and faults")
			p.until("document.readyState", "complete")
			require.Equal(t, "true", p.text("document.documentElement.scrollWidth <= innerWidth"), "no page is wider than its window")
			p.shoot(name, c.view)
		})
	}
}

// contrast lists texts whose colour is too near to that behind them (WCAG 2.2, 1.4.3).
const contrast = `(() => {
  const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] > .9) return c; } return [255, 255, 255]; };
  const bad = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || e.closest("noscript, script") || !e.checkVisibility()) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) bad.add(ratio.toFixed(2) + " " + e.tagName + "." + e.className + " " + texts.currentNode.textContent.trim().slice(0, 30));
  }
  return [...bad].join("\n");
})()`
