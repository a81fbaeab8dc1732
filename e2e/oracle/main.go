// Oracle asks real Slurm what it makes of configurations, and compares that with
// what package slurmconf/check says:
//
//	go run ./e2e/oracle [-slurm 24.11,26.05] [-sample 60] [-mutations 1000] [-seed 1] [-run name] [-update]
//
// It runs slurmctld, slurmdbd, slurmd or slurmd -G of each version on every case of
// slurmconf/check/testdata, and slurmctld on mutations of configurations, in
// namespaces that end with it. Their sleeps are over at once. It fails when a case's verdict or words are not those
// that are noted there, when a mutation is refused by check and taken by Slurm, or
// when more than 1 % of the mutations are judged otherwise in any way.
//
// A slurmctld has taken a configuration when it serves connections. slurmdbd has
// when it begins to look for its database: there is none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/slurmlet/slurmlet/e2e/testbed/native"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/parts"
	"github.com/slurmlet/slurmlet/slurmconf/check/cases"
)

func main() {
	var s settings
	versions := flag.String("slurm", strings.Join(cases.Versions, ","), "`versions` of Slurm to ask")
	flag.StringVar(&s.Testdata, "testdata", "slurmconf/check/testdata", "the `directory` of the cases")
	flag.StringVar(&s.Corpus, "corpus", "slurmconf/testdata", "the `directory` of whole configurations to mutate")
	flag.StringVar(&s.Run, "run", "", "ask about cases whose `name` has this in it only")
	flag.IntVar(&s.Sample, "sample", 0, "ask about so `many` of the cases only")
	flag.IntVar(&s.Mutations, "mutations", 1000, "how `many` mutations to ask about")
	flag.Uint64Var(&s.Seed, "seed", rand.Uint64N(1e6), "what mutations and samples are drawn with")
	flag.BoolVar(&s.Update, "update", false, "write down what Slurm does about the cases")
	flag.Parse()
	native.Main(func(ctx context.Context) error { return outside(ctx, s, strings.Split(*versions, ",")) }, inside)
}

// settings are what those inside the namespaces are told by those outside.
type settings struct {
	Testdata, Corpus  string
	Run               string
	Sample, Mutations int
	Seed              uint64
	Update            bool
	Slurms            []slurm
}

func outside(ctx context.Context, s settings, versions []string) error {
	for _, version := range versions {
		root, err := parts.Root(ctx, version, native.Progress)
		if err != nil {
			return err
		}
		s.Slurms = append(s.Slurms, slurm{Version: version, Lower: root})
	}
	if s.Update && len(versions) < len(cases.Versions) {
		return errors.New("cannot update the cases: -update needs all versions")
	}
	return native.Enter(ctx, s)
}

func inside(s settings) error {
	for i := range s.Slurms {
		if err := s.Slurms[i].prepare(); err != nil {
			return err
		}
	}
	fmt.Printf("seed %d\n", s.Seed)
	wrong, err := s.cases()
	if err != nil {
		return err
	}
	more, err := s.mutations()
	if err != nil {
		return err
	}
	if wrong || more {
		return errors.New("check and Slurm disagree: see above")
	}
	return nil
}
