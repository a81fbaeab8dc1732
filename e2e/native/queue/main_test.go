//go:build e2e

package queue

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	Case           string
	Prolog, Epilog string
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

func TestQueue(t *testing.T) {
	var scripts []string
	for _, name := range []string{"slurmlet-prolog.sh", "slurmlet-epilog.sh"} {
		text, err := os.ReadFile("../../../charts/slurm/scripts/" + name)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, string(text))
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			native.Either(t, func(t *testing.T, g native.Given) {
				native.Play(t, native.Whole, settings{g, c.name, scripts[0], scripts[1]})
			})
		})
	}
}

func inside(s settings) (err error) {
	w, err := newWorld(s)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.Close())
	}()
	if err := w.begin(); err != nil {
		return err
	}
	for _, c := range cases {
		if c.name == s.Case {
			return c.play(w)
		}
	}
	return fmt.Errorf("there is no case %q", s.Case)
}
