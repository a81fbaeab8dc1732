package reconfig

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// StreamStatus is what the controller has streamed of the ConfigMap.
type StreamStatus struct {
	Name string `json:"name"`
	// ResourceVersion is of the newest version that the controller has told, and Since when that was.
	ResourceVersion string    `json:"resource_version"`
	Since           time.Time `json:"since"`
	// Delivered: the kubelet has delivered it. Used: it takes the place of what the kubelet has delivered.
	Delivered bool `json:"delivered"`
	Used      bool `json:"used"`
	// Fault is why streamed versions are not taken.
	Fault string `json:"fault,omitempty"`
}

// awayAfter is how long the controller must be away before what the kubelet delivers counts at once.
const awayAfter = 10 * time.Second

// Stream takes a version of the ConfigMap, as if the kubelet had delivered it.
func (r *Reloader) Stream(f wire.Files, post func(lifecycle.Event)) {
	if r.ConfigMap == "" || f.Name != r.ConfigMap {
		return
	}
	now := time.Now()
	r.turn(post, func(d *delivery) {
		before := d.newest.number
		d.delivered(r.sourceDigest(), now)
		d.tellOf(f, now)
		if d.newest.number != before {
			f.Former = nil
			for digest, number := range d.known {
				f.Former = append(f.Former, wire.Version{ResourceVersion: number, Digest: digest})
			}
			r.keepStreamed(f, d.newest.at)
		}
	})
}

// tellOf takes a version as the controller has sent it.
func (d *delivery) tellOf(f wire.Files, at time.Time) {
	former := map[string]uint64{}
	for _, one := range f.Former {
		former[one.Digest] = one.ResourceVersion
	}
	d.told(streamedVersion{number: f.ResourceVersion, digest: confset.TextsDigest(f.Data), files: f.Data, at: at}, former)
}

// keptStream is a streamed version as the next container finds it. The kubelet may not have delivered it
// by then.
type keptStream struct {
	wire.Files
	At time.Time `json:"at"`
}

func (r *Reloader) streamFile() string { return filepath.Join(r.RunDir, "streamed.json") }

// mostKept bounds what is read of the file.
const mostKept = 16 << 20

func (r *Reloader) keepStreamed(f wire.Files, at time.Time) {
	text, err := json.Marshal(keptStream{f, at})
	next := r.streamFile() + ".new"
	if err == nil {
		_ = os.Remove(next)
		err = os.WriteFile(next, text, 0o600)
	}
	if err == nil {
		err = os.Rename(next, r.streamFile())
	}
	if err != nil {
		r.Log(slog.LevelWarn, "cannot keep the streamed ConfigMap: a container that starts before the kubelet has delivered it starts with the former one", slog.Any("error", err))
	}
}

// loadStreamed takes what an earlier container of the pod was told, if the kubelet may yet deliver it.
func (r *Reloader) loadStreamed() {
	if r.ConfigMap == "" {
		return
	}
	file, err := os.Open(r.streamFile())
	if err != nil {
		return // there is none
	}
	defer file.Close()
	var kept keptStream
	now := time.Now()
	if json.NewDecoder(io.LimitReader(file, mostKept)).Decode(&kept) != nil || kept.Name != r.ConfigMap || kept.At.After(now) || now.Sub(kept.At) >= deliveryLimit {
		return
	}
	r.change(func(d *delivery) {
		d.delivered(r.sourceDigest(), kept.At)
		d.tellOf(kept.Files, kept.At)
	})
}

// StreamAway takes since when the controller has been away.
func (r *Reloader) StreamAway(since time.Time, post func(lifecycle.Event)) {
	if now := time.Now(); r.ConfigMap != "" && now.Sub(since) >= awayAfter {
		r.turn(post, func(d *delivery) {
			d.away = true
			d.decide(now)
		})
	}
}

// turn changes what the agent knows, and reads the sources if they count otherwise now.
func (r *Reloader) turn(post func(lifecycle.Event), change func(*delivery)) {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.stream.mu.Lock()
	r.stream.post = post
	r.stream.mu.Unlock()
	if r.change(change) {
		post(r.Read())
	}
}

// change says whether the sources count otherwise now.
func (r *Reloader) change(change func(*delivery)) bool {
	s := &r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.digest()
	change(&s.delivery)
	r.tell()
	if left := time.Until(s.newest.at.Add(deliveryLimit)); s.over != nil && s.look == nil && s.post != nil && left > 0 {
		s.look = time.AfterFunc(left, r.timeOver)
	}
	return s.digest() != before
}

// timeOver: the kubelet has had its time for the version that was told when the timer was set.
func (r *Reloader) timeOver() {
	s := &r.stream
	s.mu.Lock()
	s.look = nil
	post := s.post
	s.mu.Unlock()
	r.turn(post, func(d *delivery) { d.decide(time.Now()) })
}

// tell logs what has become of the streamed version, once. The caller holds stream.mu.
func (r *Reloader) tell() {
	s := &r.stream
	if s.newest.number == 0 {
		return
	}
	level, text := slog.LevelInfo, "the kubelet has delivered what the controller streamed"
	switch {
	case s.overdue != 0:
		level, text = slog.LevelWarn, s.fault(r.ConfigMap)
	case s.waits() && s.saidOver == s.over.digest && s.saidOf != s.dir:
		text = "the kubelet has delivered an older version than the controller has streamed, or one that the controller does not know; the streamed one counts"
	case s.waits() && s.saidOver == s.over.digest:
		return
	case s.waits():
		text = "the controller has streamed a version of the ConfigMap, which the kubelet has yet to deliver"
	case s.dir != s.newest.digest:
		text = "the source directory holds another content than the controller has streamed, and counts"
	}
	said := text + s.newest.digest
	if said != s.said || s.saidOf != s.dir {
		r.Log(level, text, slog.String("configMap", r.ConfigMap), slog.Uint64("version", s.newest.number))
	}
	s.said, s.saidOf, s.saidOver = said, s.dir, ""
	if s.over != nil {
		s.saidOver = s.over.digest
	}
}

// digest is that of what counts.
func (d *delivery) digest() string {
	if d.over != nil {
		return d.over.digest
	}
	return d.dir
}

// fault is why streamed versions are not taken, empty if nothing is wrong. A kubelet's delay is no fault.
func (d *delivery) fault(name string) string {
	if d.overdue == 0 {
		return ""
	}
	text := fmt.Sprintf("the kubelet has not delivered version %d of the ConfigMap %s within %s", d.overdue, name, deliveryLimit)
	if d.over != nil {
		text += "; it stays in use"
	}
	return text + ", and no newer one is taken from the controller before the kubelet delivers"
}

// sourceDir is the source with slurm.conf.
func (r *Reloader) sourceDir() string {
	for _, dir := range r.Sources {
		if _, err := os.Stat(filepath.Join(dir, confset.Main)); err == nil {
			return dir
		}
	}
	return r.Sources[0]
}

func (r *Reloader) sourceDigest() string {
	texts, err := confset.Texts(r.sourceDir())
	if err != nil {
		return "" // the set's reader reports it
	}
	return confset.TextsDigest(texts)
}

// readSources reads the sources, with the elastic sets.
func (r *Reloader) readSources() (*confset.Set, error) {
	set, err := r.readFiles()
	if err != nil {
		return nil, err
	}
	return r.withElastic(set)
}

// readFiles reads the sources, and what was streamed in the place of one.
func (r *Reloader) readFiles() (*confset.Set, error) {
	if r.ConfigMap == "" {
		return confset.Read(r.Sources)
	}
	now := time.Now()
	r.change(func(d *delivery) { d.delivered(r.sourceDigest(), now) })
	r.stream.mu.Lock()
	over := r.stream.over
	r.stream.mu.Unlock()
	if over == nil {
		return confset.Read(r.Sources)
	}
	return confset.ReadOver(r.Sources, &confset.Overlay{Dir: r.sourceDir(), Files: over.files})
}

// forgoOverdue: who asks for a reload has what the kubelet has delivered tried, where a streamed version has
// been waiting for too long.
func (r *Reloader) forgoOverdue() { r.change((*delivery).forgo) }

// streamStatus is nil where nothing was streamed.
func (r *Reloader) streamStatus() *StreamStatus {
	s := &r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ConfigMap == "" || s.newest.number == 0 {
		return nil
	}
	return &StreamStatus{
		Name: r.ConfigMap, ResourceVersion: strconv.FormatUint(s.newest.number, 10), Since: s.newest.at,
		Delivered: s.dir == s.newest.digest, Used: s.waits(), Fault: s.fault(r.ConfigMap),
	}
}

// String tells people.
func (s *StreamStatus) String() string {
	text := fmt.Sprintf("%s, version %s from the controller at %s", s.Name, s.ResourceVersion, s.Since.Format(time.RFC3339))
	switch {
	case s.Delivered:
		return text + ", delivered by the kubelet"
	case s.Used:
		return text + ", in use before the kubelet delivers it"
	}
	return text + "; the source directory holds another content, which counts"
}

func (r *Reloader) readForced(post func(lifecycle.Event)) conf.Revision {
	r.reading.Lock()
	defer r.reading.Unlock()
	r.forgoOverdue()
	revision := r.Read()
	revision.Forced, revision.Request = true, int(r.requests.Add(1))
	post(revision)
	return revision
}

// Read reads what the sources hold now.
func (r *Reloader) Read() conf.Revision {
	set, err := r.readSources()
	return conf.Revision{Set: set, Err: errors.Join(r.CopyKeys(), err), At: time.Now()}
}

// read posts what the sources hold now.
func (r *Reloader) read(post func(lifecycle.Event)) {
	r.reading.Lock()
	defer r.reading.Unlock()
	post(r.Read())
}

// Reread reads the sources, because the elastic sets have changed.
func (r *Reloader) Reread(post func(lifecycle.Event)) { r.read(post) }
