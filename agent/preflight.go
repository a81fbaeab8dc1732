package agent

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
)

// Preflight says how a configuration is looked at before slurmctld gets it.
type Preflight string

// The kinds of preflight.
const (
	PreflightOff   Preflight = "off"   // the files must be there and be text
	PreflightParse Preflight = "parse" // checked by package slurmconf, and read by Slurm's own parser
)

func parsePreflight(text string) (Preflight, error) {
	switch p := Preflight(text); p {
	case PreflightOff, PreflightParse:
		return p, nil
	}
	return "", errors.New("want off or parse")
}

// parserLimit bounds Slurm's parser, which waits for a missing include for a minute.
const parserLimit = 5 * time.Second

// stage writes a set beside the live one, with the agent's defaults in it.
func (a *Agent) stage(set *confset.Set) (string, error) {
	dir, err := a.conf.live.Stage(set)
	if err == nil && a.Config.ConfDefaults {
		if err = a.render(dir); err != nil {
			a.conf.live.Drop(dir)
		}
	}
	return dir, err
}

// checkSet stages a set and looks at it; what is wrong has the name of the
// source, where people edit.
func (a *Agent) checkSet(set *confset.Set, running bool) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), questionLimit)
	defer cancel()
	noted := make(chan struct{})
	go func() {
		defer close(noted)
		if running {
			a.noteStarts(ctx)
		}
	}()
	staged, err := a.stage(set)
	if err == nil {
		if err = a.preflight(ctx, set, staged); err != nil {
			a.conf.live.Drop(staged)
		}
	}
	<-noted
	return staged, err
}

func (a *Agent) preflight(ctx context.Context, set *confset.Set, staged string) error {
	if a.Config.Preflight == PreflightOff {
		return nil
	}
	conf, findings := slurmconf.Read(slurmconf.Dir(staged))
	if findings.Err() != nil {
		return errors.New(set.Named(staged, faults(set, findings).Error()))
	}
	ctx, cancel := context.WithTimeout(ctx, parserLimit)
	defer cancel()
	if err := a.client.Parse(ctx, filepath.Join(staged, confset.Main)); err != nil {
		_, said, _ := strings.Cut(err.Error(), ": ")
		return errors.New(where(conf, set, said) + "Slurm's parser: " + set.Named(staged, said))
	}
	return nil
}

// faults are the findings that are errors, under the names of the sources.
func faults(set *confset.Set, findings slurmconf.Findings) error {
	var lines []string
	for _, f := range findings {
		if f.Severity == slurmconf.Error {
			f.File = source(set, f.File)
			lines = append(lines, f.Error())
		}
	}
	return errors.New(strings.Join(lines, "\n"))
}

func source(set *confset.Set, name string) string {
	if f, found := set.File(name); found {
		return f.Source
	}
	return name
}
