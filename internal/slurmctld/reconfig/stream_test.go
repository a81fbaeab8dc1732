package reconfig

import (
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/internal/lifecycle"
	"github.com/slurmlet/slurmlet/internal/lifecycle/conf"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

// posts keeps what the owner would be told.
type posts struct {
	mu  sync.Mutex
	got []conf.Revision
}

func (p *posts) post(e lifecycle.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, e.(conf.Revision))
}

func (p *posts) take() []conf.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.got
	p.got = nil
	return all
}

// dataOf is a ConfigMap's data.
func dataOf(text string) map[string]string { return map[string]string{confset.Main: text} }

// streamed opens a Reloader whose directory has a version that was told.
func streamed(t *testing.T) (*Reloader, *posts) {
	t.Helper()
	r := opened(t, &reader{}, PreflightParse)
	r.ConfigMap = "slurm"
	read(t, r)
	p := &posts{}
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 10, Data: dataOf("ClusterName=c1\n")}, p.post)
	require.Empty(t, p.take(), "the directory has it")
	require.Nil(t, r.stream.over)
	return r, p
}

// TestStream: a streamed version is read as if the kubelet had delivered it.
func TestStream(t *testing.T) {
	r, p := streamed(t)
	require.NoError(t, os.WriteFile(filepath.Join(r.Sources[0], "slurm.key"), []byte("secret"), 0o600))
	r.Stream(wire.Files{Name: "other", ResourceVersion: 11, Data: dataOf("ClusterName=c3\n")}, p.post)
	require.Empty(t, p.take(), "another ConfigMap is nobody's")

	next := dataOf("ClusterName=c2\n")
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 11, Data: next}, p.post)
	got := p.take()
	require.Len(t, got, 1)
	require.NoError(t, got[0].Err)
	f, _ := got[0].Set.File(confset.Main)
	assert.Equal(t, "ClusterName=c2\n", string(f.Data))
	assert.Equal(t, filepath.Join(r.Sources[0], confset.Main), f.Source)
	assert.Len(t, got[0].Set.Keys, 1, "the keys are the kubelet's")
	assert.Equal(t, "slurm, version 11 from the controller at "+r.streamStatus().Since.Format(time.RFC3339)+", in use before the kubelet delivers it", r.streamStatus().String())
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 11, Data: next}, p.post)
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 10, Data: dataOf("ClusterName=c1\n")}, p.post)
	assert.Empty(t, p.take(), "nothing is told twice, and nothing older")
	assert.True(t, read(t, r).Same(got[0].Set), "whoever reads has it")

	change("ClusterName=c2\n")(t, r) // the kubelet's delivery
	delivered := r.Read()
	require.NoError(t, delivered.Err)
	assert.True(t, delivered.Set.Same(got[0].Set), "and it changes nothing")
	assert.True(t, r.streamStatus().Delivered)
	assert.Nil(t, r.stream.over)
}

// TestStreamBad: a fault in a streamed file has the name and the line that it will have in the directory.
func TestStreamBad(t *testing.T) {
	r, p := streamed(t)
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 11, Data: dataOf("ClusterName=c1\n\x00\n")}, p.post)
	got := p.take()
	require.Len(t, got, 1)
	require.EqualError(t, got[0].Err, filepath.Join(r.Sources[0], confset.Main)+":2: want text, not the byte 0")
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 12, Data: map[string]string{"gres.conf": ""}}, p.post)
	got = p.take()
	require.Len(t, got, 1)
	require.ErrorContains(t, got[0].Err, "cannot find slurm.conf")
}

// TestStreamRestart: another container of the pod goes on with the version that the kubelet may not have
// delivered yet, and knows it again.
func TestStreamRestart(t *testing.T) {
	r, p := streamed(t)
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 11, Data: dataOf("ClusterName=c2\n")}, p.post)
	p.take()
	for name, c := range map[string]struct {
		change func(*Options)
		age    time.Duration
		want   string
	}{
		"at once":            {want: "ClusterName=c2\n"},
		"much later":         {age: deliveryLimit, want: "ClusterName=c1\n"},
		"with another name":  {change: func(o *Options) { o.ConfigMap = "other" }, want: "ClusterName=c1\n"},
		"without any":        {change: func(o *Options) { o.ConfigMap = "" }, want: "ClusterName=c1\n"},
		"with broken traces": {change: func(o *Options) { require.NoError(t, os.WriteFile(r.streamFile(), []byte("{"), 0o600)) }, want: "ClusterName=c1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r.keepStreamed(wire.Files{
				Name: "slurm", ResourceVersion: 11, Data: dataOf("ClusterName=c2\n"),
				Former: []wire.Version{{ResourceVersion: 10, Digest: confset.TextsDigest(dataOf("ClusterName=c1\n"))}},
			}, time.Now().Add(-c.age))
			o := r.Options
			if c.change != nil {
				c.change(&o)
			}
			again, _ := Open(o)
			f, _ := read(t, again).File(confset.Main)
			assert.Equal(t, c.want, string(f.Data))
			if c.want == "ClusterName=c2\n" {
				again.Stream(wire.Files{Name: "slurm", ResourceVersion: 11, Data: dataOf("ClusterName=c2\n")}, p.post)
				assert.Empty(t, p.take())
			}
		})
	}
}

// TestStreamOverdue: a kubelet that does not deliver is told, and a reload takes what it has delivered.
func TestStreamOverdue(t *testing.T) {
	r, p := streamed(t)
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 11, Data: dataOf("ClusterName=c2\n")}, p.post)
	p.take()
	r.stream.newest.at = r.stream.newest.at.Add(-deliveryLimit)
	r.timeOver()
	assert.Empty(t, p.take(), "what is live stays")
	r.Stream(wire.Files{Name: "slurm", ResourceVersion: 12, Data: dataOf("ClusterName=c3\n")}, p.post)
	assert.Empty(t, p.take())
	s := r.Complete(*r.Status(r.seen.Load().state))
	require.NotNil(t, s.ConfigMap)
	assert.Equal(t, []string{"the kubelet has not delivered version 11 of the ConfigMap slurm within 5m0s; it stays in use, and no newer one is taken from the controller before the kubelet delivers"}, s.Faults)
	f, _ := read(t, r).File(confset.Main)
	assert.Equal(t, "ClusterName=c2\n", string(f.Data))
	f, _ = r.readForced(p.post).Set.File(confset.Main)
	assert.Equal(t, "ClusterName=c1\n", string(f.Data))
}

// TestStreamAndDirectory: whoever comes first, what is posted last is what counts.
func TestStreamAndDirectory(t *testing.T) {
	r, p := streamed(t)
	texts := []string{"ClusterName=c1\n"}
	for n := range 50 {
		texts = append(texts, texts[0]+"PrologEpilogTimeout="+string(rune('1'+n%9))+"\n#"+string(rune('A'+n%26))+"\n"+texts[len(texts)-1][len(texts[0]):])
	}
	var running sync.WaitGroup
	running.Go(func() {
		for n, text := range texts[1:] {
			r.Stream(wire.Files{Name: "slurm", ResourceVersion: uint64(11 + n), Data: maps.Clone(dataOf(text))}, p.post)
		}
	})
	running.Go(func() {
		for _, text := range texts[1:] {
			file := filepath.Join(r.Sources[0], "..new")
			if os.WriteFile(file, []byte(text), 0o600) == nil {
				_ = os.Rename(file, filepath.Join(r.Sources[0], confset.Main))
			}
			r.read(p.post)
		}
	})
	running.Wait()
	lengths := 0
	got := p.take()
	for _, one := range got {
		require.NoError(t, one.Err)
		f, _ := one.Set.File(confset.Main)
		require.GreaterOrEqual(t, len(f.Data), lengths, "an older content is no edit")
		lengths = len(f.Data)
	}
	assert.Equal(t, len(texts[len(texts)-1]), lengths)
}
