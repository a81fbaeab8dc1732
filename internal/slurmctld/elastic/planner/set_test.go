package planner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const gpuFile = `{"nodes":"c-gpu-[0-3]","min":1,"cpuLimit":"4","memoryLimit":"16Gi","storageLimit":"100Gi","gres":"gpu:a100:2","features":["gpu","amd"],"weight":"10"}`

func TestParse(t *testing.T) {
	s, err := Parse("gpu", []byte(gpuFile))
	require.NoError(t, err)
	assert.Equal(t, "CPUs=4 RealMemory=16320 TmpDisk=102400 Gres=gpu:a100:2 Feature=amd,gpu Weight=10 State=CLOUD", s.CreateParameters(true))
	assert.Equal(t, "slurmlet set gpu: CPUs=4 RealMemory=16320 TmpDisk=102400 Gres=gpu:a100:2", s.comment(true))
	assert.Equal(t, 4, s.NodeNames.Len())
	assert.Equal(t, 1, s.Min)
	for limits, want := range map[string]string{
		`"cpuLimit":"1500m","memoryLimit":"1G"`:                          "CPUs=1 RealMemory=889",
		`"cpuLimit":"0.5","memoryLimit":"512Mi","memoryReserve":"0"`:     "CPUs=1 RealMemory=512",
		`"cpuLimit":"3900m","memoryLimit":"1e9","memoryReserve":"128Mi"`: "CPUs=3 RealMemory=825",
		`"cpuLimit":"64","memoryLimit":"17179869184"`:                    "CPUs=64 RealMemory=16320",
		`"cpuLimit":"2","memoryLimit":"1.5Gi"`:                           "CPUs=2 RealMemory=1472",
	} {
		s, err := Parse("cpu", []byte(`{"nodes":"cpu-0",`+limits+`}`))
		require.NoError(t, err, limits)
		assert.Equal(t, want, s.Size.Conf(), limits)
	}
}

func TestGresLines(t *testing.T) {
	sets, err := Sets{}.Take(map[string][]byte{
		"cpu": []byte(`{"nodes":"c-[0-3]","cpuLimit":"4","memoryLimit":"16Gi"}`),
		"gpu": []byte(`{"nodes":"g-[0-3]","cpuLimit":"4","memoryLimit":"16Gi","gres":"gpu:a100:2,gpu:h200:1,fpga:8"}`),
	})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"NodeName=g-[0-3] Name=gpu Type=a100 File=/dev/nvidia[0-1]", "NodeName=g-[0-3] Name=gpu Type=h200 File=/dev/nvidia[2-2]", "NodeName=g-[0-3] Name=fpga Count=8",
	}, sets.GresLines())
}

func TestParseFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"nodes":"c-0","cpuLimit":"4"}`:                                                   `gpu.json: memoryLimit: cannot use "": a node needs a limit, such as 16Gi`,
		`{"nodes":"c-0","memoryLimit":"4Gi"}`:                                              `gpu.json: cpuLimit: cannot use "": a node needs a limit, such as 4 or 1500m`,
		`{"nodes":"c-0","cpuLimit":"0","memoryLimit":"4Gi"}`:                               `gpu.json: cpuLimit: cannot use "0": a node needs a limit`,
		`{"nodes":"c-0","cpuLimit":"-1","memoryLimit":"4Gi"}`:                              `gpu.json: cpuLimit: cannot use "-1": want a quantity of Kubernetes`,
		`{"nodes":"c-0","cpuLimit":"99999","memoryLimit":"4Gi"}`:                           `cpuLimit: cannot use "99999": that is more than a node can have`,
		`{"nodes":"c-0","cpuLimit":"4","memoryLimit":"32Mi"}`:                              `gpu.json: memoryLimit: cannot use "32Mi": 33554432 bytes leave no memory for jobs`,
		`{"nodes":"c-0","cpuLimit":"4","memoryLimit":"4 Gi"}`:                              `gpu.json: memoryLimit: cannot use "4 Gi": want a quantity`,
		`{"nodes":"c-[0-1]","min":3,"cpuLimit":"4","memoryLimit":"4Gi"}`:                   `gpu.json: min: cannot use 3: want a number from 0 to 2`,
		`{"nodes":"c-[0-1]","min":-1,"cpuLimit":"4","memoryLimit":"4Gi"}`:                  `gpu.json: min: cannot use -1`,
		`{"nodes":"","cpuLimit":"4","memoryLimit":"4Gi"}`:                                  `gpu.json: nodes: cannot use "": want the names`,
		`{"nodes":"c-[0","cpuLimit":"4","memoryLimit":"4Gi"}`:                              `gpu.json: nodes: cannot use "c-[0":`,
		`{"nodes":"C-0","cpuLimit":"4","memoryLimit":"4Gi"}`:                               `"C-0" is none`,
		`{"nodes":"c-[0-39999],d-[0-39999]","cpuLimit":"4","memoryLimit":"4Gi"}`:           `want at most 65536 nodes, not 80000`,
		`{"nodes":"c-0,c-0","cpuLimit":"4","memoryLimit":"4Gi"}`:                           `want each name only once`,
		`{"nodes":"localhost","cpuLimit":"4","memoryLimit":"4Gi"}`:                         `"localhost" has a meaning of its own`,
		`{"nodes":"c-0","cpuLimit":"4","memoryLimit":"4Gi","gres":"gpu:a:b:c"}`:            `gpu.json: gres: cannot use "gpu:a:b:c": want name[:type][:count]`,
		`{"nodes":"c-0","cpuLimit":"4","memoryLimit":"4Gi","weight":"heavy"}`:              `gpu.json: weight: cannot use "heavy": want a whole number`,
		`{"nodes":"c-0","cpuLimit":"4","memoryLimit":"4Gi","features":["a b"]}`:            `gpu.json: features: cannot use "a b": want names`,
		`{"nodes":"c-0","cpuLimit":"4","memoryLimit":"4Gi","topology":"a b"}`:              `gpu.json: topology: cannot use "a b"`,
		`{"nodes":"c-0","max":5}`:                                                          `gpu.json: there is no key "max"; there are nodes, min, idleSeconds,`,
		`{"nodes":5}`:                                                                      `gpu.json: nodes: want a string, not a number`,
		`{`:                                                                                `gpu.json: want an object of JSON`,
		`{} {}`:                                                                            `gpu.json: want one object of JSON`,
		`{"nodes":"c-0","cpuLimit":"x","memoryLimit":"y","min":7}`:                         `gpu.json: memoryLimit: cannot use "y"`,
		`{"nodes":"c-` + strings.Repeat("x", 63) + `","cpuLimit":"4","memoryLimit":"4Gi"}`: `at most 63 characters`,
	} {
		_, err := Parse("gpu", []byte(text))
		assert.ErrorContains(t, err, want, text)
	}
	_, err := Parse("GPU", []byte(gpuFile))
	assert.ErrorContains(t, err, `GPU.json: cannot use the name "GPU"`)
}

func file1(nodes string) []byte {
	return []byte(`{"nodes":"` + nodes + `","cpuLimit":"1","memoryLimit":"1Gi"}`)
}

func TestTake(t *testing.T) {
	sets, err := Sets{}.Take(map[string][]byte{"a": file1("a-[0-9]"), "b": file1("b-[0-9]")})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, sets.Names())

	bad, err := sets.Take(map[string][]byte{"a": []byte(`{`), "b": file1("b-[0-19]"), "c": []byte(`{`)})
	require.ErrorContains(t, err, "a.json: want an object")
	assert.Equal(t, []string{"a", "b"}, bad.Names(), "the last good set stays")
	assert.Equal(t, 20, bad.All[1].NodeNames.Len())
	assert.Equal(t, []string{"c"}, bad.Bad)

	collides, err := sets.Take(map[string][]byte{"a": file1("a-[0-9]"), "b": file1("b-[0-9],a-[5-6]"), "c": file1("a-0,c-0")})
	require.ErrorContains(t, err, "b.json: nodes: a.json has a-[5-6], too")
	require.ErrorContains(t, err, "c.json: nodes: a.json has a-0, too")
	assert.Equal(t, []string{"a", "b"}, collides.Names())
	assert.Equal(t, []string{"c"}, collides.Bad)
	assert.True(t, collides.All[1].equal(sets.All[1]), "the last good one")

	gone, err := sets.Take(map[string][]byte{"b": file1("b-[0-9]")})
	require.NoError(t, err)
	assert.Equal(t, []string{"b"}, gone.Names())
}

func FuzzParseSet(f *testing.F) {
	f.Add("gpu", gpuFile)
	f.Fuzz(func(t *testing.T, name, text string) {
		s, err := Parse(name, []byte(text))
		if err != nil {
			return
		}
		require.Positive(t, s.Size.CPUs)
		require.Positive(t, s.Size.RealMemory)
		require.NotContains(t, s.CreateParameters(true), "\n")
		require.Len(t, strings.Fields(s.CreateParameters(true)), strings.Count(s.CreateParameters(true), "="))
		require.Equal(t, name, setOf(s.comment(true)))
	})
}
