//go:build e2e

// Package elastic has node sets whose nodes Slurm itself starts and ends, in real clusters on this machine's own
// kernel (e2e/testbed/native). There is no Kubernetes: e2e/testbed/podmaker makes the pods, and the peers' server of the
// controller tells the agents of them.
package elastic

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/slurmlet/slurmlet/e2e/testbed/chaos"
	"github.com/slurmlet/slurmlet/e2e/testbed/native"
)

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	native.Given
	Story string
	Chaos chaos.Plan
}

// step is a part of a story, which counts on the steps before it.
type step struct {
	name string
	play func(*world) error
}

// story is a cluster of its own, with its lines of slurm.conf and its elastic sets. Without sets the maker of pods asks
// slurmctld itself.
type story struct {
	slurmConf string
	sets      map[string]string
	steps     []step
}

var stories = map[string]story{
	"slurm":     {slurmConf: manual, steps: slurmSteps},
	"failures":  {slurmConf: failuresConf, sets: failuresSets, steps: failuresSteps},
	"restarts":  {slurmConf: restartsConf, sets: restartsSets, steps: restartsSteps},
	"records":   {slurmConf: recordsConf, sets: recordsSets, steps: recordsSteps},
	"jobs":      {slurmConf: jobsConf, sets: jobsSets, steps: jobsSteps},
	"burst":     {slurmConf: burstConf, sets: burstSets(`"m"`), steps: burstSteps},
	"forgotten": {slurmConf: forgottenConf, sets: forgottenSets, steps: forgottenSteps},
	"chaos":     {slurmConf: chaosConf, sets: chaosSets, steps: chaosSteps},
}

func TestMain(m *testing.M) { native.TestMain(m, inside) }

// TestSlurm has Slurm's power saving and the maker of pods alone.
func TestSlurm(t *testing.T) { either(t, "slurm") }

// TestRecords has the records of sets made, changed and deleted.
func TestRecords(t *testing.T) { either(t, "records") }

// TestJobs has jobs of many kinds start nodes, and idle nodes end.
func TestJobs(t *testing.T) { either(t, "jobs") }

// TestFailures has pods fail, and their maker.
func TestFailures(t *testing.T) { inFull(t, "failures") }

// TestRestarts has slurmctld fail.
func TestRestarts(t *testing.T) { either(t, "restarts") }

// inFull is either, in make test-full alone.
func inFull(t *testing.T, story string) {
	if !full() {
		t.Skip("make test-full plays it")
	}
	either(t, story)
}

func either(t *testing.T, story string) {
	t.Parallel()
	native.Either(t, func(t *testing.T, g native.Given) { enter(t, settings{Given: g, Story: story}) })
}

func enter(t *testing.T, s settings) {
	t.Parallel() // it waits most of the time
	native.Play(t, 10*time.Minute+3*s.Chaos.Length, s)
}

// full has all that there is to play.
func full() bool { return os.Getenv("SLURMLET_E2E_FULL") != "" }

func inside(s settings) (err error) {
	if s.Story == slurmdStory {
		return playSlurmd(s)
	}
	story, is := stories[s.Story]
	if !is {
		return fmt.Errorf("no story %q", s.Story)
	}
	w, err := newWorld(s, story)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.explain()
		}
		err = errors.Join(err, w.end())
	}()
	for _, step := range story.steps {
		began := time.Now()
		if err := step.play(w); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%s, Slurm %s: %s: %.2f s\n", s.Story, s.Version, step.name, time.Since(began).Seconds())
	}
	return nil
}
