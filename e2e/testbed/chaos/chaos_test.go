package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestJudge(t *testing.T) {
	requeues, fixed := Kind{Requeues: true}, Kind{}
	for _, tt := range []struct {
		name string
		kind Kind
		fate Fate
		good bool
	}{
		{"once", requeues, Fate{State: "COMPLETED", Text: "begin 0\nend\n"}, true},
		{"without a trace", requeues, Fate{State: "COMPLETED"}, false},
		{"without an end", requeues, Fate{State: "COMPLETED", Text: "begin 0\n"}, false},
		{"twice", requeues, Fate{State: "COMPLETED", Text: "begin 0\nend\nbegin 0\nend\n"}, false},
		{"beside itself", requeues, Fate{State: "COMPLETED", Text: "begin 0\nbeside\nbegin 0\nend\nend\n", Restarts: 1, Failed: 1}, false},
		{"beside itself, a node was cut off", requeues, Fate{State: "COMPLETED", Text: "begin 0\nbeside\nbegin 1\nend\n", Restarts: 1, Failed: 1, CutOff: true}, true},
		{"requeued", requeues, Fate{State: "COMPLETED", Text: "begin 0\nbegin 1\nend\n", Restarts: 1, Failed: 1}, true},
		{"requeued before it began", requeues, Fate{State: "COMPLETED", Text: "begin 1\nend\n", Restarts: 1, Failed: 1}, true},
		{"requeued without a reason", requeues, Fate{State: "COMPLETED", Text: "begin 0\nbegin 1\nend\n", Restarts: 1}, false},
		{"slurmctld has forgotten that it ran", requeues, Fate{State: "COMPLETED", Text: "begin 0\nend\nbegin 0\nend\n", Forgotten: 1}, true},
		{"failed", fixed, Fate{State: "NODE_FAIL", Text: "begin 0\n", Failed: 1}, true},
		{"failed without a reason", fixed, Fate{State: "NODE_FAIL", Text: "begin 0\n"}, false},
		{"failed, and is one that requeues", requeues, Fate{State: "NODE_FAIL", Text: "begin 0\n", Failed: 1}, false},
		{"cancelled", requeues, Fate{State: "CANCELLED", Text: "begin 0\n", Cancelled: true}, true},
		{"cancelled by nobody", requeues, Fate{State: "CANCELLED", Text: "begin 0\n"}, false},
		{"cancelled where it ran when it was launched again", fixed, Fate{State: "CANCELLED", Text: "begin 0\nend\n", Forgotten: 1}, true},
		{"cancelled, and may be requeued", requeues, Fate{State: "CANCELLED", Text: "begin 0\nend\n", Forgotten: 1}, false},
		{"failed by itself", requeues, Fate{State: "FAILED", Text: "begin 0\nend\n"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.good, tt.kind.Judge(tt.fate) == nil)
		})
	}
}

func TestRead(t *testing.T) {
	usual := Plan{45 * time.Second, 3}
	read := func() Plan {
		p, err := usual.Read()
		require.NoError(t, err)
		return p
	}
	t.Setenv(lengthVariable, "")
	t.Setenv(seedVariable, "")
	assert.Equal(t, usual, read())
	t.Setenv(lengthVariable, "10m")
	assert.Equal(t, 10*time.Minute, read().Length)
	assert.NotEqual(t, usual.Seed, read().Seed)
	t.Setenv(seedVariable, "7")
	assert.Equal(t, Plan{10 * time.Minute, 7}, read())
	t.Setenv(seedVariable, "seven")
	_, err := usual.Read()
	assert.Error(t, err)
}
