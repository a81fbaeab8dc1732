package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/check"
	"github.com/slurmlet/slurmlet/slurmconf/check/cases"
)

// mutant is a configuration that one change was made to.
type mutant struct {
	of, change string
	files      map[string]string
}

// tally is how check and Slurm agree about mutants.
type tally struct {
	sync.Mutex
	asked, agree, refused, missed, falseErrors, hang int
}

// mutations asks every version about many changed configurations. Their lines come
// from the corpus and from the cases that Slurm takes.
func (s *settings) mutations() (wrong bool, err error) {
	if s.Mutations == 0 {
		return false, nil
	}
	started := time.Now()
	seeds, err := s.seeds()
	if err != nil {
		return false, err
	}
	random := rand.New(rand.NewPCG(s.Seed, 1))
	random.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
	seeds = s.thatStart(seeds[:min(len(seeds), s.Mutations)])
	if len(seeds) == 0 {
		return false, errors.New("cannot mutate: no configuration starts")
	}
	mutants := make([]mutant, s.Mutations)
	for i := range mutants {
		mutants[i] = mutate(random, seeds)
	}
	var t tally
	_ = inParallel(len(mutants), func(i int) error { s.compare(&t, mutants[i]); return nil })
	fmt.Printf("%d mutations of %d configurations, seed %d, Slurm %s: %d of %d verdicts agree (%.1f %%; both refuse %d), %d missed, %d false errors, %d without a verdict of Slurm's (%v)\n",
		len(mutants), len(seeds), s.Seed, s.versions(), t.agree, t.asked, 100*float64(t.agree)/float64(max(t.asked, 1)), t.refused, t.missed, t.falseErrors, t.hang, time.Since(started).Round(time.Second))
	return t.falseErrors > 0 || t.agree*100 < t.asked*99, nil
}

func (s *settings) compare(t *tally, m mutant) {
	for _, one := range s.Slurms {
		refused, log, err := one.ask("slurmctld", m.files)
		found := findings(m.files, one.Version)
		t.Lock()
		switch {
		case err != nil:
			t.hang++
			fmt.Printf("%s, %s, Slurm %s: no verdict: %v\n", m.of, m.change, one.Version, err)
		case refused && found.Err() == nil:
			t.asked++
			t.missed++
			fmt.Printf("missed: %s, %s, Slurm %s says:\n%s", m.of, m.change, one.Version, indented(answer{refused, log}.errors()))
		case !refused && found.Err() != nil:
			t.asked++
			t.falseErrors++
			fmt.Printf("false error: %s, %s, Slurm %s takes it:\n%s", m.of, m.change, one.Version, indented(found.Err().Error()+"\n"))
		default:
			t.asked++
			t.agree++
			if refused {
				t.refused++
			}
		}
		t.Unlock()
	}
}

// findings is what check says to files, of what slurmctld reads.
func findings(files map[string]string, version string) slurmconf.Findings {
	all := fstest.MapFS{}
	for name, text := range files {
		all["etc/slurm/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	set, found := slurmconf.Read(slurmconf.In(all, "/etc/slurm"), slurmconf.SlurmConf, slurmconf.CgroupConf, slurmconf.TopologyConf,
		slurmconf.TopologyYAML, slurmconf.AcctGatherConf)
	more, err := check.Set(set, check.Options{Version: version})
	if err != nil {
		panic(err) // The versions are known.
	}
	more = slices.DeleteFunc(more, func(f slurmconf.Finding) bool { return f.Rule == "missing-file" }) // which slurmd misses
	return append(found, more...)
}

// seeds are whole configurations, and the cases.
func (s *settings) seeds() (all []mutant, err error) {
	dirs, err := filepath.Glob(filepath.Join(s.Corpus, "*/slurm.conf"))
	if err != nil || len(dirs) == 0 {
		return nil, fmt.Errorf("cannot find configurations in %s: %v", s.Corpus, err)
	}
	for _, conf := range dirs {
		m := mutant{of: filepath.Base(filepath.Dir(conf)), files: map[string]string{}}
		root := filepath.Dir(conf)
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel(root, path) // it is below
			m.files[name] = string(text)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", root, err)
		}
		m.files["slurm.conf"] = transplanted(m.files["slurm.conf"])
		all = append(all, m)
	}
	topics, err := cases.Read(s.Testdata)
	if err != nil {
		return nil, err
	}
	for _, t := range topics {
		for _, c := range t.Cases {
			if c.Daemon == "slurmctld" && !strings.Contains(c.Files["slurm.conf"], "accounting_storage/slurmdbd") { // for which slurmctld waits
				all = append(all, mutant{of: c.Name, files: c.Files})
			}
		}
	}
	return all, nil
}

// thatStart are the configurations that check and every version take.
func (s *settings) thatStart(seeds []mutant) (all []mutant) {
	good := make([]bool, len(seeds))
	_ = inParallel(len(seeds), func(i int) error {
		for _, one := range s.Slurms {
			if findings(seeds[i].files, one.Version).Err() != nil {
				return nil
			}
			if refused, _, err := one.ask("slurmctld", seeds[i].files); refused || err != nil {
				return err
			}
		}
		good[i] = true
		return nil
	})
	for i, seed := range seeds {
		if good[i] {
			all = append(all, seed)
		}
	}
	return all
}
