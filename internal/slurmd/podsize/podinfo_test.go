package podsize

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// volume is a downward-API volume.
func volume(t testing.TB, files map[string]string) string {
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return dir
}

func traitsOf(t *testing.T, files map[string]string) (nodesize.Traits, error) {
	dir := volume(t, files)
	info, err := readPodInfo("/", dir)
	require.NoError(t, err)
	return nodesize.FindTraits(info.finder(dir))
}

func TestTraits(t *testing.T) {
	for name, c := range map[string]struct {
		labels, annotations string
		conf                string
		update              []string
	}{
		"none":     {"app=\"slurmd\"\n", "kubernetes.io/config.seen=\"2026\"\n", "", nil},
		"no files": {"", "", "", nil},
		"all of them": {
			"", "slurmlet.dev/features=\"gpu, ib,gpu\"\nslurmlet.dev/weight=\"5\"\nslurmlet.dev/topology=\"default:rack1\"\n", " Feature=gpu,ib Weight=5",
			[]string{"availablefeatures=gpu,ib", "activefeatures=gpu,ib", "weight=5", "topology=default:rack1"},
		},
		"a label":                    {"slurmlet.dev/features=\"blue\"", "", " Feature=blue", []string{"availablefeatures=blue", "activefeatures=blue"}},
		"an annotation over a label": {"slurmlet.dev/weight=\"1\"", "slurmlet.dev/weight=\"2\"", " Weight=2", []string{"weight=2"}},
		"no feature at all":          {"", "slurmlet.dev/features=\"\"", "", []string{"availablefeatures=", "activefeatures="}},
	} {
		t.Run(name, func(t *testing.T) {
			traits, err := traitsOf(t, map[string]string{labelsFile: c.labels, annotationsFile: c.annotations})
			require.NoError(t, err)
			assert.Equal(t, c.conf, traits.Conf())
			assert.Equal(t, c.update, traits.Update(&slurm.Node{Features: []string{"old"}, Weight: 7}))
		})
	}
}

func TestBadTraits(t *testing.T) {
	for text, want := range map[string]string{
		`slurmlet.dev/features="a&b"`:           `annotations: slurmlet.dev/features: cannot use "a&b": want names of letters, digits and -_.=+/@, separated by commas; "a&b" is none`,
		`slurmlet.dev/features="a,,b"`:          `"" is none`,
		`slurmlet.dev/features="a b"`:           `"a b" is none`,
		`slurmlet.dev/weight="heavy"`:           `slurmlet.dev/weight: cannot use "heavy": want a whole number from 0 to 4294967293`,
		`slurmlet.dev/weight="-1"`:              `want a whole number`,
		`slurmlet.dev/weight="4294967295"`:      `want a whole number`,
		`slurmlet.dev/topology="a b"`:           `slurmlet.dev/topology: cannot use "a b": want topology:unit`,
		`slurmlet.dev/topology="x state=down"`:  `want topology:unit`,
		`slurmlet.dev/features="x\nstate=down"`: `want names of letters`,
	} {
		_, err := traitsOf(t, map[string]string{annotationsFile: text})
		require.ErrorContains(t, err, want, text)
	}
	_, err := traitsOf(t, map[string]string{annotationsFile: `slurmlet.dev/features="|"` + "\n" + `slurmlet.dev/weight="x"`})
	require.ErrorContains(t, err, "features")
	require.ErrorContains(t, err, "weight", "all faults at once")
}

func TestPodInfo(t *testing.T) {
	info, err := readPodInfo("/", volume(t, map[string]string{cpuFile: "1500", memoryFile: "536870912\n"}))
	require.NoError(t, err)
	require.Equal(t, []int64{1500, 512 << 20}, []int64{info.downward.millicores.Value, info.downward.memory.Value})
	require.Regexp(t, "/cpu_limit$", info.downward.millicores.Source)
	_, err = readPodInfo("/", volume(t, map[string]string{labelsFile: "a\n", cpuFile: "lots"}))
	require.ErrorContains(t, err, `labels: line 1: want name="value", not "a"`)
	require.ErrorContains(t, err, `cpu_limit: cannot use "lots": want a positive whole number of thousandths of a CPU`)
}

func FuzzTraits(f *testing.F) {
	f.Add("slurmlet.dev/features=\"a,b\"\nslurmlet.dev/weight=\"5\"")
	f.Add("slurmlet.dev/topology=\"a:b\\n\"")
	f.Fuzz(func(t *testing.T, text string) {
		pairs, err := parsePairs(text)
		if err != nil {
			return
		}
		traits, err := nodesize.FindTraits(podInfo{annotations: pairs}.finder("/etc/podinfo"))
		if err != nil {
			return
		}
		// One word per field: nothing else can be smuggled into a command of scontrol's.
		fields := traits.Update(&slurm.Node{Weight: -1})
		for _, field := range fields {
			require.Len(t, strings.Fields(field), 1, field)
			_, value, _ := strings.Cut(field, "=")
			require.NotContains(t, value, "\x00")
		}
		for word := range strings.FieldsSeq(traits.Conf()) {
			require.Regexp(t, `^(Feature|Weight)=[^\s]+$`, word)
		}
	})
}
