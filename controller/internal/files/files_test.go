package files

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slurmlet/slurmlet/controller/peerserver"
	"github.com/slurmlet/slurmlet/internal/kit/confset"
)

// object makes a ConfigMap of the cluster hpc/slurm.
func object(name string, age, version int, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "hpc", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(version), Labels: map[string]string{Label: "slurm"},
		CreationTimestamp: metav1.NewTime(time.Unix(int64(1000-age), 0)), Annotations: map[string]string{"a": "b"},
	}, Data: data}
}

func trimmed(t *testing.T, m *corev1.ConfigMap) *configMap {
	t.Helper()
	kept, err := trim(m)
	require.NoError(t, err)
	again, err := trim(kept)
	require.NoError(t, err)
	assert.Same(t, kept, again)
	return kept.(*configMap)
}

func conf(text string) map[string]string { return map[string]string{confset.Main: text} }

func TestTrim(t *testing.T) {
	many := conf("")
	for n := range confset.MaxFiles {
		many[fmt.Sprint(n)] = ""
	}
	with := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		m := object("slurm", 0, 7, conf("A=b\n"))
		change(m)
		return m
	}
	for name, c := range map[string]struct {
		object *corev1.ConfigMap
		reason string // empty: it is streamed
	}{
		"one":                {with(func(*corev1.ConfigMap) {}), ""},
		"without slurm.conf": {object("slurm", 0, 7, map[string]string{"gres.conf": ""}), noSlurmConf},
		"nothing in it":      {object("slurm", 0, 7, nil), noSlurmConf},
		"a key":              {with(func(m *corev1.ConfigMap) { m.Data["slurm.key"] = "secret" }), key},
		"a password":         {with(func(m *corev1.ConfigMap) { m.Data["slurmdbd.conf"] = "StoragePass=secret" }), key},
		"binary data":        {with(func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"x": nil} }), binary},
		"immutable":          {with(func(m *corev1.ConfigMap) { m.Immutable = new(true) }), immutable},
		"not immutable":      {with(func(m *corev1.ConfigMap) { m.Immutable = new(false) }), ""},
		"too many files":     {object("slurm", 0, 7, many), tooMany},
		"no number":          {with(func(m *corev1.ConfigMap) { m.ResourceVersion = "x7" }), badVersion},
		"no version":         {with(func(m *corev1.ConfigMap) { m.ResourceVersion = "" }), badVersion},
	} {
		t.Run(name, func(t *testing.T) {
			kept := trimmed(t, c.object)
			if c.reason != "" {
				require.NotNil(t, kept.fault)
				assert.Equal(t, c.reason, kept.fault.Reason)
				assert.Nil(t, kept.data, "what is not streamed is not kept")
				assert.NotContains(t, kept.fault.Note, "secret")
				return
			}
			require.Nil(t, kept.fault)
			assert.Equal(t, "hpc/slurm", kept.cluster)
			assert.Empty(t, kept.Annotations)
			assert.Equal(t, confset.TextsDigest(conf("A=b\n")), kept.digest)
		})
	}
	large := object("slurm", 0, 7, conf(strings.Repeat("<&>\n", 1<<18)))
	kept := trimmed(t, large)
	assert.Less(t, len(kept.data), 3<<19, "an encoded text is hardly longer")
	var data map[string]string
	require.NoError(t, json.Unmarshal(kept.data, &data))
	assert.Equal(t, large.Data, data)
}

func TestParse(t *testing.T) {
	names, err := Parse("hpc/slurm,lab/slurm.conf")
	require.NoError(t, err)
	assert.Equal(t, []types.NamespacedName{{Namespace: "hpc", Name: "slurm"}, {Namespace: "lab", Name: "slurm.conf"}}, names)
	names, err = Parse("none")
	require.NoError(t, err)
	assert.Empty(t, names)
	_, err = Parse("slurm,hpc/*,hpc/slurm,hpc/slurm")
	require.EqualError(t, err, "want namespace/name of a ConfigMap, not \"slurm\"\nwant namespace/name of a ConfigMap, not \"hpc/*\"\nhpc/slurm is named twice")
}

// told keeps what agents would be told.
type toldTables map[string][]string

func (t toldTables) SetFiles(cluster string, f *peerserver.EncodedFiles) error {
	text := "nothing"
	if f != nil {
		text = fmt.Sprint(f.Name, " ", f.ResourceVersion, " ", string(f.Data))
		for _, one := range f.Former {
			text += fmt.Sprint(" <", one.ResourceVersion)
		}
	}
	t[cluster] = append(t[cluster], text)
	return nil
}

// TestWatcher: agents are told each content once, of the oldest ConfigMap.
func TestWatcher(t *testing.T) {
	tables := toldTables{}
	w, err := New(nil, tables, nil, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	var last *configMap
	put := func(m *corev1.ConfigMap, want ...string) {
		t.Helper()
		now := trimmed(t, m)
		w.put(last, now)
		last = now
		assert.Equal(t, want, tables["hpc/slurm"])
		tables["hpc/slurm"] = nil
	}
	put(object("slurm", 10, 5, conf("a")), `slurm 5 {"slurm.conf":"a"}`)
	put(object("slurm", 10, 6, conf("a"))) // an annotation
	put(object("slurm", 10, 7, conf("b")), `slurm 7 {"slurm.conf":"b"} <5`)
	put(object("slurm", 10, 8, map[string]string{"gres.conf": ""}), "nothing")
	assert.Equal(t, noSlurmConf, w.faults.all["slurm"].Reason)
	assert.Zero(t, w.Told())
	put(object("slurm", 10, 9, conf("a")), `slurm 9 {"slurm.conf":"a"} <5 <7 <8`)
	assert.Empty(t, w.faults.all)
	assert.Equal(t, 1, w.Told())
	for n := range 40 {
		tables["hpc/slurm"] = nil
		w.put(last, trimmed(t, object("slurm", 10, 10+n, conf(fmt.Sprint(n)))))
	}
	assert.Equal(t, mostVersions-1, strings.Count(tables["hpc/slurm"][0], "<"))
	tables["hpc/slurm"] = nil

	young := trimmed(t, object("other", 3, 60, conf("c")))
	w.put(nil, young)
	assert.Empty(t, tables["hpc/slurm"], "the older one is the cluster's")
	assert.Equal(t, "The older ConfigMap slurm is the configuration of the cluster too, so this one is not streamed.", w.faults.all["other"].Note)
	w.remove(last)
	assert.Equal(t, []string{`other 60 {"slurm.conf":"c"}`}, tables["hpc/slurm"])
	assert.Empty(t, w.faults.all)
	w.remove(young)
	assert.Equal(t, "nothing", tables["hpc/slurm"][1])
	assert.Empty(t, w.clusters)
	assert.Empty(t, w.histories)

	moved := object("slurm", 10, 70, conf("a"))
	moved.Labels[Label] = "lab"
	w.put(trimmed(t, object("slurm", 10, 69, conf("a"))), trimmed(t, moved))
	assert.Equal(t, []string{`slurm 70 {"slurm.conf":"a"}`}, tables["hpc/lab"])
}
