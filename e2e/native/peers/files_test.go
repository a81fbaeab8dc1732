//go:build e2e

package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slurmlet/slurmlet/agent"
	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/e2e/standin"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

const (
	// mount is the ConfigMap's volume, in the cluster's root.
	mount = "/run/mount"
	// fileLimit is for what daemons do on a machine that has other work.
	fileLimit = 2 * time.Minute
)

// edits is a ConfigMap, its volume, and a controller that streams it.
type edits struct {
	*world
	volume *native.Volume
	// base has the first version's files, with the key. slurm.key comes with the volume alone.
	base    map[string][]byte
	version uint64
	former  []wire.Version
}

// playFiles has slurmctld's agent hear of edits from the stream and from the volume, in every order.
func (w *world) playFiles() error {
	e := &edits{world: w, version: 10}
	var err error
	if e.base, err = w.Sources(); err != nil {
		return err
	}
	if e.volume, err = w.NewVolume(mount, e.base); err != nil {
		return err
	}
	if err := e.startControl(); err != nil {
		return err
	}
	for _, n := range w.Nodes {
		if err := w.Start(n); err != nil {
			return err
		}
	}
	for _, n := range w.Nodes {
		if err := n.AwaitReady(native.Limit); err != nil {
			return err
		}
	}
	if err := e.until("slurmctld's agent is at rest", func(s *agent.Status) bool { return s.State == supervisor.Ready && s.Conf.Doing == "" }); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		does func() error
	}{
		{"the version that is mounted", e.baseline},
		{"a streamed edit, and its delivery", e.streamedEdit},
		{"an older delivery", e.olderDelivery},
		{"a bad edit", e.badEdit},
		{"a restart before the delivery", e.restart},
	} {
		if err := step.does(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

func (e *edits) startControl() error {
	environ, err := e.server.Admit(e.Root, standin.Controller)
	if err != nil {
		return err
	}
	return e.ControlBySlurmlet(mount, e.hear, append(environ, "SLURMLET_CONFIG_MAP=slurm")...)
}

// files are a version's: the base with lines of slurm.conf.
func (e *edits) files(lines string) map[string][]byte {
	files := map[string][]byte{}
	for name, data := range e.base {
		files[name] = slices.Clone(data)
	}
	files[confset.Main] = append(files[confset.Main], lines...)
	return files
}

// stream tells a version, as the controller does.
func (e *edits) stream(lines string) error {
	data := map[string]string{}
	for name, text := range e.files(lines) {
		if !confset.IsKey(name) {
			data[name] = string(text)
		}
	}
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	e.version++
	err = e.server.SetFiles(standin.Cluster, &peerserver.EncodedFiles{Name: "slurm", ResourceVersion: e.version, Former: e.former, Data: text})
	e.former = append(e.former, wire.Version{ResourceVersion: e.version, Digest: confset.TextsDigest(data)})
	return err
}

// deliver is the kubelet's.
func (e *edits) deliver(lines string) error {
	_, err := e.volume.Swap(e.files(lines))
	return err
}

func (e *edits) until(what string, is func(*agent.Status) bool) error {
	return e.UntilAgent(fileLimit, what, is)
}

// live waits until all nodes have so many edits.
func (e *edits) live(taken int) error {
	return e.until(fmt.Sprintf("edit %d is live on all nodes", taken), func(s *agent.Status) bool {
		return s.Conf.Doing == "" && s.Conf.Reloads.Taken == taken && s.Conf.Took == len(e.Nodes) && s.Conf.Live == s.Conf.Good
	})
}

// delivered waits until the agent has seen that the kubelet has delivered what was streamed last, and holds that
// nothing else has happened.
func (e *edits) delivered(taken, refused int) error {
	err := e.until("the agent sees the delivery", func(s *agent.Status) bool { return s.Conf.ConfigMap != nil && s.Conf.ConfigMap.Delivered })
	if err != nil {
		return err
	}
	return e.unchanged(taken, refused)
}

// unchanged: no further edit was taken or refused, and slurmctld has not reconfigured for one.
func (e *edits) unchanged(taken, refused int) error {
	s, err := e.AgentStatus()
	if err != nil {
		return err
	}
	if r := s.Conf.Reloads; r.Taken != taken || r.Refused != refused || r.RolledBack != 0 || s.Conf.Doing != "" {
		return fmt.Errorf("want %d edits taken and %d refused, not %+v (%s)", taken, refused, r, s.Conf.Doing)
	}
	return nil
}

// timeout holds what slurmctld itself has for PrologEpilogTimeout.
func (e *edits) timeout(want string) error {
	out, err := e.Command("/usr/bin/scontrol", "show", "config").Output()
	if err != nil {
		return fmt.Errorf("cannot ask slurmctld: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "PrologEpilogTimeout" {
			if fields[2] != want {
				return fmt.Errorf("want %s, not %q", want, line)
			}
			return nil
		}
	}
	return errors.New("slurmctld tells no PrologEpilogTimeout")
}

func (e *edits) baseline() error {
	if err := e.stream(""); err != nil {
		return err
	}
	return e.delivered(0, 0)
}

const (
	first  = "PrologEpilogTimeout=101\n"
	second = "PrologEpilogTimeout=102\n"
	third  = "PrologEpilogTimeout=103\n"
	fourth = "PrologEpilogTimeout=104\n"
)

func (e *edits) streamedEdit() error {
	began := time.Now()
	if err := errors.Join(e.stream(first), e.live(1), e.timeout("101")); err != nil {
		return err
	}
	fmt.Printf("Slurm %s: a streamed edit is live on %d nodes after %.1f s\n", e.settings.Version, len(e.Nodes), time.Since(began).Seconds())
	return errors.Join(e.deliver(first), e.delivered(1, 0))
}

func (e *edits) olderDelivery() error {
	if err := errors.Join(e.stream(second), e.live(2), e.deliver("")); err != nil {
		return err
	}
	err := native.Within(fileLimit, "the agent does not see the older delivery", func() bool { return e.told("has delivered an older version") })
	if err == nil {
		err = errors.Join(e.unchanged(2, 0), e.timeout("102"), e.deliver(first), e.timeout("102"), e.deliver(second), e.delivered(2, 0), e.timeout("102"))
	}
	return err
}

func (e *edits) told(text string) bool {
	e.lock.Lock()
	defer e.lock.Unlock()
	return slices.ContainsFunc(e.log, func(line string) bool { return strings.Contains(line, text) })
}

func (e *edits) badEdit() error {
	const bad = second + "PrologEpilogTimeout=soon\n"
	at := fmt.Sprintf("%s/slurm.conf:%d", mount, strings.Count(string(e.base[confset.Main]), "\n")+2)
	if err := e.stream(bad); err != nil {
		return err
	}
	err := e.until("the edit is refused at "+at, func(s *agent.Status) bool {
		return s.Conf.Refused != nil && strings.HasPrefix(s.Conf.Refused.Why[0], at+":") && s.Conf.Live == s.Conf.Good
	})
	if err == nil {
		err = errors.Join(e.deliver(bad), e.delivered(2, 1), e.timeout("102"), e.stream(third), e.live(3), e.timeout("103"), e.deliver(third), e.delivered(3, 1))
	}
	return err
}

// restart: slurmctld's container ends before the kubelet has delivered what is live, and its controller is
// another one that knows nothing of the past.
func (e *edits) restart() error {
	if err := errors.Join(e.stream(fourth), e.live(4)); err != nil {
		return err
	}
	if err := errors.Join(e.Controller.Process.Signal(syscall.SIGTERM), e.Controller.Wait()); err != nil {
		return err
	}
	if err := e.startControl(); err != nil {
		return err
	}
	err := e.until("slurmctld runs with what was live", func(s *agent.Status) bool {
		return s.State == supervisor.Ready && s.Conf.Doing == "" && s.Conf.ConfigMap != nil && s.Conf.ConfigMap.Used
	})
	if err != nil {
		return err
	}
	e.former, e.version = nil, e.version-1
	return errors.Join(e.timeout("104"), e.stream(fourth), e.timeout("104"), e.deliver(third), e.timeout("104"), e.deliver(fourth), e.delivered(0, 0), e.timeout("104"))
}
