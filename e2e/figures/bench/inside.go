package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
)

// settings are what the inner bench is told by the outer one.
type settings struct {
	Slurmlet string            // absolute paths
	Daemon   string            //
	Roots    map[string]string // by Slurm's version
	Inits    bool              // and nothing else
	Edits    bool              // and nothing else
	Short    bool
}

func inside(s settings) error {
	if s.Short {
		todo = short
	}
	var r results
	if !s.Edits {
		if err := r.measureInits(s); err != nil {
			return err
		}
	}
	versions := slices.Sorted(maps.Keys(s.Roots))
	if s.Short && len(versions) > 0 {
		versions = versions[:1]
	}
	for _, version := range versions {
		l, err := measureSlurm(s, version)
		if err != nil {
			return fmt.Errorf("cannot measure Slurm %s: %w", version, err)
		}
		r.slurms = append(r.slurms, l)
	}
	return r.print(os.Stdout)
}

func (r *results) measureInits(s settings) error {
	size, err := os.Stat(s.Slurmlet)
	if err != nil {
		return fmt.Errorf("cannot measure the binary: %w", err)
	}
	r.binary = float64(size.Size()) / mega
	r.inits, err = measureInits(s)
	return err
}
