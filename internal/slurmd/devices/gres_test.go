package devices

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/slurmlet/slurmlet/internal/slurm/gres"
)

// TestChoice: what SLURMLET_GRES can ask for, and what becomes of it.
func TestChoice(t *testing.T) {
	for _, c := range []struct{ machine, choice, gres, says string }{
		{"2-of-8", "auto", "gpu:nvidia_h200:2", ""},
		{"2-of-8", "none", "", ""},
		{"2-of-8", "gpu:2", "gpu:2", ""},
		{"2-of-8", "gpu", "gpu:1", ""},
		{"2-of-8", "gpu:h200:2,shmem:1", "gpu:h200:2,shmem:1", ""},
		{"2-of-8", "gpu:fast:1,gpu:slow:1", "gpu:fast:1,gpu:slow:1", ""},
		{"2-of-8", "gpu:h200:3", "", "gpu:h200:3: the container has not that many: gpu:nvidia_h200:2 was found"},
		{"2-of-8", "gpu:nvidia_h200:1,gpu:other:2", "", "gpu:other:2: the container has not that many: gpu:nvidia_h200:2 was found"},
		{"none", "gpu:1", "", "gpu:1: the container has not that many: no GPU was found"},
		{"none", "shmem:3", "shmem:3", ""},
		// The type that was found is taken first, whatever the order.
		{"mixed", "gpu:mine:2,gpu:NVIDIA_H200:1", "gpu:NVIDIA_H200:1,gpu:mine:2", ""},
		{"mig", "gpu:1g.10gb:2,gpu:nvidia_h200:1", "gpu:nvidia_h200:1,gpu:1g.10gb:2", ""},
	} {
		t.Run(c.machine+" "+c.choice, func(t *testing.T) {
			choice, err := ParseChoice(c.choice)
			require.NoError(t, err)
			p, err := machine(t, c.machine).Find().Plan(choice)
			if c.says != "" {
				require.EqualError(t, err, c.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.gres, p.Gres.String())
		})
	}
}

func TestChosenLines(t *testing.T) {
	p, err := machine(t, "mixed").Find().Plan(Choice{Gres: gres.List{{Name: "gpu", Type: "mine", Count: 2}, {Name: "gpu", Type: "nvidia_h200", Count: 1}, {Name: "shmem", Count: 1}, {Name: "nic", Type: "fast", Count: 2}}})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"Name=gpu Type=nvidia_h200 File=/dev/nvidia0",
		"Name=gpu Type=mine File=/dev/nvidia1,/dev/dri/renderD128",
		"Name=shmem Count=1",
		"Name=nic Type=fast Count=2",
	}, p.Lines)
}

func TestFaultyChoice(t *testing.T) {
	const list = "want auto, none, or a list: "
	_, err := gres.Parse("")
	require.Error(t, err)
	syntax := err.Error()
	for text, want := range map[string]string{
		"":                list + syntax,
		"gpu:":            list + syntax,
		"gpu:0":           list + syntax,
		"gpu:-1":          list + syntax,
		"gpu:h200:two":    list + syntax,
		"gpu:h200:x:1":    list + syntax,
		"gpu:2K":          "", // a type
		"GPU:2":           list + syntax,
		"2:gpu":           list + syntax,
		"gpu:2,":          list + syntax,
		"gpu:2, gpu:h:1":  list + syntax,
		"gpu:2(S:0)":      list + syntax,
		"gpu:a b:1":       list + syntax,
		"gpu:no_consume":  list + syntax,
		"gpu:h:1,gpu:H:1": list + "want gpu:H only once",
		"gpu:h:1,gpu:1":   list + "want every gpu with a type, or none",
	} {
		_, err := ParseChoice(text)
		if want == "" {
			assert.NoError(t, err, text)
		} else {
			assert.EqualError(t, err, want, text)
		}
	}
}
