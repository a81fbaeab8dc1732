package pod

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestValidate(t *testing.T) {
	good := Spec{Name: "a", Args: []string{"true"}}
	assert.NoError(t, good.Validate())
	for want, change := range map[string]func(*Spec){
		`name "A": want a DNS label`:             func(s *Spec) { s.Name = "A" },
		`name "a.b": want`:                       func(s *Spec) { s.Name = "a.b" },
		`name "../a": want`:                      func(s *Spec) { s.Name = "../a" },
		`name "aaaaaaaaaa`:                       func(s *Spec) { s.Name = strings.Repeat("a", 64) },
		`args: want a command`:                   func(s *Spec) { s.Args = nil },
		`cpu -1: want 0`:                         func(s *Spec) { s.CPU = -1 },
		`cpu 0.001: want 0 (no limit) or`:        func(s *Spec) { s.CPU = 0.001 },
		`memory -1, swap 0: want bytes`:          func(s *Spec) { s.Memory = -1 },
		`restart "always": want Never or Always`: func(s *Spec) { s.Restart = "always" },
		`capability "KILL": want CAP_ and a`:     func(s *Spec) { s.Capabilities = []string{"KILL"} },
		`capability "cap_kill": want CAP_`:       func(s *Spec) { s.AddCapabilities = []string{"cap_kill"} },
		`device "dev/x", 1:3: want a path below`: func(s *Spec) { s.Devices = []Device{{"dev/x", 1, 3}} },
		`device "/dev/../x", 1:3: want a path`:   func(s *Spec) { s.Devices = []Device{{"/dev/../x", 1, 3}} },
		`device "/dev/x", -1:3: want a path`:     func(s *Spec) { s.Devices = []Device{{"/dev/x", -1, 3}} },
		`volume name "": want a DNS label`:       func(s *Spec) { s.Volumes = []Volume{{Path: "/a"}} },
		`volume v: path "a": want an absolute`:   func(s *Spec) { s.Volumes = []Volume{{Name: "v", Path: "a"}} },
		`volume v: path "/": want an absolute`:   func(s *Spec) { s.Volumes = []Volume{{Name: "v", Path: "/"}} },
		`volume v: hostPath goes with neither`:   func(s *Spec) { s.Volumes = []Volume{{Name: "v", Path: "/a", HostPath: "/b", Shared: true}} },
		`volume v: file name "../x": want`:       func(s *Spec) { s.Volumes = []Volume{{Name: "v", Path: "/a", Files: map[string]File{"../x": {}}}} },
	} {
		bad := good
		change(&bad)
		assert.ErrorContains(t, bad.Validate(), want)
	}
}

func TestValidateTellsAllAtOnce(t *testing.T) {
	err := Spec{Name: "A", CPU: -1}.Validate()
	for _, want := range []string{"name", "args", "cpu"} {
		assert.ErrorContains(t, err, want)
	}
}
