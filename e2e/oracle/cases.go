package main

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/slurmconf/check/cases"
)

// cases asks every version about every case, and tells of those where Slurm does
// not what is noted.
func (s *settings) cases() (wrong bool, err error) {
	started := time.Now()
	topics, err := cases.Read(s.Testdata)
	if err != nil {
		return false, err
	}
	all := s.chosen(topics)
	asked := make([]answers, len(all))
	err = inParallel(len(all), func(i int) error {
		var err error
		if asked[i], err = s.askAll(all[i]); err != nil {
			return fmt.Errorf("cannot ask about %s: %w", all[i].Name, err)
		}
		return nil
	})
	if err != nil && !s.Update {
		return false, err
	}
	if s.Update {
		return false, errors.Join(err, update(topics, all, asked))
	}
	count, because := 0, 0
	for i, c := range all {
		if c.Because() != "" {
			because++
		}
		for version, a := range asked[i] {
			if why := a.differs(c, version); why != "" {
				count++
				fmt.Printf("%s, Slurm %s: %s\n", c.Name, version, why)
			}
		}
	}
	fmt.Printf("%d cases of %d topics, Slurm %s: %d not as noted, %d where check disagrees with a reason (%v)\n",
		len(all), len(topics), s.versions(), count, because, time.Since(started).Round(time.Second))
	return count > 0, nil
}

func (s *settings) chosen(topics []*cases.Topic) (all []*cases.Case) {
	for _, t := range topics {
		for _, c := range t.Cases {
			if strings.Contains(c.Name, s.Run) {
				all = append(all, c)
			}
		}
	}
	if s.Sample > 0 && s.Sample < len(all) {
		random := rand.New(rand.NewPCG(s.Seed, 0))
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:s.Sample]
	}
	return all
}

func (s *settings) versions() string {
	var names []string
	for _, one := range s.Slurms {
		names = append(names, one.Version)
	}
	return strings.Join(names, " and ")
}

// answer is what one daemon does and says.
type answer struct {
	refused bool
	log     string
}

type answers map[string]answer // by version

func (s *settings) askAll(c *cases.Case) (answers, error) {
	all := answers{}
	for _, one := range s.Slurms {
		noted, _ := c.Says(one.Version)
		words := strings.Split(strings.TrimSpace(noted.Says), "\n")
		if s.Update {
			words = []string{"what nobody says"} // so that it has time to say all
		}
		refused, log, err := one.ask(c.Daemon, c.Files, words...)
		if err != nil {
			return nil, err
		}
		all[one.Version] = answer{refused, log}
	}
	return all, nil
}

// differs is how an answer is not the one that is noted.
func (a answer) differs(c *cases.Case, version string) string {
	noted, ok := c.Says(version)
	switch {
	case !ok:
		return "nothing is noted"
	case noted.Refused && !a.refused:
		return "it takes it"
	case !noted.Refused && a.refused:
		return "it refuses it:\n" + cmp.Or(a.errors(), a.log)
	}
	for line := range strings.Lines(noted.Says) {
		if !strings.Contains(a.log, strings.TrimSpace(line)) {
			return fmt.Sprintf("it does not say %q, but\n%s", strings.TrimSpace(line), a.errors())
		}
	}
	return ""
}

// errors are the lines that tell of errors, but for those that every start has.
func (a answer) errors() string {
	var text strings.Builder
	for line := range strings.Lines(a.log) {
		if _, what, ok := strings.Cut(line, "error: "); ok && !slices.ContainsFunc(usual, func(u string) bool { return strings.Contains(line, u) }) {
			text.WriteString(what)
		}
		if _, what, ok := strings.Cut(line, "fatal: "); ok {
			text.WriteString(what)
		}
	}
	return text.String()
}

var usual = []string{
	"MailProg", "###", "Could not open", "NOTE: Trying backup", "Job accounting information", "High latency", "default partition not set",
	"Retrying initial", "agent_fini", "getaddrinfo", "Configured MailProg", "Domain socket directory", "_shutdown_bu_thread", "mysql_real_connect failed", "for pam_slurm_adopt", "xcpuinfo_hwloc_topo_load", "slurm_set_addr: Unable to resolve",
}

// inParallel does something for each of many, on all processors.
func inParallel(count int, do func(int) error) error {
	next := make(chan int)
	var errs []error
	var lock sync.Mutex
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			runtime.LockOSThread() // for the daemons, which end with the thread that has started them (prctl(2), PR_SET_PDEATHSIG)
			for i := range next {
				if err := do(i); err != nil {
					lock.Lock()
					errs = append(errs, err)
					lock.Unlock()
				}
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	all.Wait()
	return errors.Join(errs...)
}

// update notes what the versions do.
func update(topics []*cases.Topic, all []*cases.Case, asked []answers) error {
	for i, c := range all {
		if asked[i] == nil {
			continue
		}
		answers := map[string]cases.Answer{}
		for version, a := range asked[i] {
			answers[version] = cases.Answer{Refused: a.refused, Says: words(a)}
		}
		c.SetSays(answers)
	}
	for _, t := range topics {
		if err := t.Write(); err != nil {
			return err
		}
	}
	return nil
}

// passing are parts of lines that are others at each start.
var passing = regexp.MustCompile(`/asked/\w+|\[\d+\]`)

// words are the errors, at most four of them: the last say the most.
func words(a answer) string {
	var lines []string
	for line := range strings.Lines(a.errors()) {
		if !passing.MatchString(line) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-4):], "")
}
