//go:build e2e

package cluster

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

const (
	// webSocket is slurmctld's agent's.
	webSocket = "/run/slurmlet-web/web.sock"
	// userHeader is what a proxy before the page would set.
	userHeader = "X-Forwarded-User"
	// pageAddress is where the page is served.
	pageAddress = "127.0.0.1:8818"
	// evilName is a job's name and evilReason a node's reason, both of which would run a script.
	evilName   = `"><script>alert('job')</script><b onclick=alert(1)>`
	evilReason = `fan "3" isn't quiet"><script>alert('node')</script> & <b onclick=alert(2)>`
)

// page: slurmlet-web shows a job that starts and a node that is drained, and tells that there is
// something new. What users have written stays text, and readers without a name read none of it.
func (w *world) page() (err error) {
	program, err := os.ReadFile(w.web)
	if err != nil {
		return fmt.Errorf("cannot read slurmlet-web; build it first: %w", err)
	}
	if err := os.WriteFile(filepath.Join(w.Root, "usr/bin/slurmlet-web"), program, 0o755); err != nil {
		return err
	}
	serve := func(address string) *exec.Cmd {
		return w.Command("/usr/bin/slurmlet-web", "-listen", address, "-socket", webSocket, "-user-header", userHeader)
	}
	said, err := serve(net.JoinHostPort(native.Address, "8818")).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "is no loopback address") {
		return fmt.Errorf("the page is served where everybody can send a header: %w: %s", err, said)
	}
	web := serve(pageAddress)
	web.Stdout, web.Stderr = os.Stdout, os.Stdout
	if err := web.Start(); err != nil {
		return fmt.Errorf("cannot serve the page: %w", err)
	}
	defer func() {
		err = errors.Join(err, web.Process.Signal(unix.SIGTERM), web.Wait())
	}()
	id, err := w.slurmFrom(held, "sbatch", "--parsable", "--output=/dev/null", "--chdir=/tmp", "--job-name="+evilName, "--uid=2003",
		"--partition=many", "--mem=5", "--nodelist=n1", "--hold")
	if err != nil {
		return err
	}
	waits, runs := "/?user=cem&state=PENDING", "/?user=cem&state=RUNNING"
	if err := w.shows(nil, waits, rowOf(id), html.EscapeString(evilName)); err != nil {
		return err
	}
	text, err := read(waits, true)
	if err != nil {
		return err
	}
	version := pageVersion.FindStringSubmatch(text)
	if version == nil {
		return errors.New("the page has no version")
	}
	events, err := ask("/events?seen="+version[1], true)
	if err != nil {
		return err
	}
	defer events.Body.Close()
	if kind := events.Header.Get("Content-Type"); kind != "text/event-stream" {
		return fmt.Errorf("the events are %s, %s", events.Status, kind)
	}
	news := listen(events.Body)
	if _, err := w.slurm("scontrol", "release", id); err != nil {
		return err
	}
	if err := w.shows(news, runs, rowOf(id), html.EscapeString(evilName)); err != nil {
		return err
	}
	if _, err := w.slurm("scontrol", "update", "nodename=n1", "state=drain", "reason="+evilReason); err != nil {
		return err
	}
	if err := w.shows(news, "/", `<th scope="row"><bdi>n1</bdi></th>`, "draining", html.EscapeString(evilReason), id+" of <bdi>cem</bdi>"); err != nil {
		return err
	}
	return w.strangers()
}

var pageVersion = regexp.MustCompile(`data-version="(\d+)"`)

// rowOf is the beginning of a job's row.
func rowOf(id string) string { return `<th scope="row">` + id + `</th>` }

// shows waits until the page has some texts. With news, it is read after an event alone.
func (w *world) shows(news <-chan struct{}, path string, texts ...string) error {
	after := time.After(limit)
	for {
		page, err := read(path, true)
		if err == nil {
			err = harmless(page)
		}
		if err != nil && news != nil {
			return err
		}
		missing := ""
		for _, text := range texts {
			if !strings.Contains(page, text) {
				missing = text
			}
		}
		if err == nil && missing == "" {
			return nil
		}
		next := news
		if next == nil { // nobody tells
			tick := make(chan struct{})
			time.AfterFunc(interval, func() { close(tick) })
			next = tick
		}
		select {
		case <-next:
		case <-after:
			return fmt.Errorf("the page %s does not show %q: %w", path, missing, err)
		}
	}
}

// harmless: the page's own script is the only one, and no element has a handler.
func harmless(page string) error {
	scripts := strings.Count(strings.ToLower(page), "<script")
	if scripts != 1 || strings.Contains(page, "<b on") || strings.Contains(page, "alert(1)</script>") {
		return fmt.Errorf("a text has broken out of the page, which has %d scripts", scripts)
	}
	return nil
}

// read gets the page, for a reader with a name or for one without.
func read(path string, named bool) (string, error) {
	response, err := ask(path, named)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	return string(text), err
}

func ask(path string, named bool) (*http.Response, error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+pageAddress+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if named {
		r.Header.Set(userHeader, "ada")
	}
	return http.DefaultClient.Do(r)
}

// listen follows the page's events. Each that tells of something new comes out of news, and several
// may come as one.
func listen(events io.Reader) (news <-chan struct{}) {
	told := make(chan struct{}, 1)
	go func() {
		for lines := bufio.NewScanner(events); lines.Scan(); {
			if lines.Text() == "event: view" {
				select {
				case told <- struct{}{}:
				default:
				}
			}
		}
	}()
	return told
}

// strangers read no name, and no text of a user or an administrator.
func (w *world) strangers() error {
	page, err := read("/?user=cem", false)
	if err == nil {
		err = harmless(page)
	}
	if err != nil {
		return err
	}
	for _, secret := range []string{"alert", "quiet", "cem", "ann", "n1<", "kept free"} {
		if strings.Contains(page, secret) {
			return fmt.Errorf("a stranger reads %q", secret)
		}
	}
	if !strings.Contains(page, "shown to readers whom the proxy names") {
		return errors.New("a stranger gets another page")
	}
	return nil
}
