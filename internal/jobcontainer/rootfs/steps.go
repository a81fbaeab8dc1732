package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// A container without a name can be joined as JOB.STEP while it runs, as with pyxis. Its holder has its answer in a file
// that ends with its namespaces, and who joins finds the holder among the user's processes.

var stepName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+)\.([0-9]+)$`) })

// answerFile is below the mount point of the container, where no task sees it.
func (s Spec) answerFile() string { return filepath.Join(s.mountpoint(), "answer") }

// joinStep returns the answer of a running step's holder, where the name is a step's and no container has it.
func (s Spec) joinStep() ([]byte, error) {
	found := stepName().FindStringSubmatch(s.Name)
	if found == nil || s.NameMode == options.Create || s.NameMode == options.NoExec || exists(s.nameDir()) {
		return nil, nil
	}
	for limit := time.Now().Add(mostStarting); ; {
		holder := findHolder(found[1], found[2])
		if holder == "" {
			return nil, nil
		}
		answer, err := os.ReadFile(filepath.Join(holder, "root", s.answerFile()))
		switch {
		case err == nil:
			return answer, nil
		case !errors.Is(err, fs.ErrNotExist): // it is not a holder of this user's
			return nil, fmt.Errorf("cannot join the container of the step %s: %w", s.Name, err)
		case time.Now().After(limit):
			return nil, fmt.Errorf("the container of the step %s has not started within %v", s.Name, mostStarting)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// findHolder returns the directory in /proc of a step's holder, empty for none. No other user's environment can be read.
func findHolder(job, step string) string {
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, dir := range all {
		words, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !isHolder(strings.Split(string(words), "\x00")) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "environ"))
		environment := strings.Split(string(text), "\x00")
		if err == nil && slices.Contains(environment, "SLURM_JOB_ID="+job) && slices.Contains(environment, "SLURM_STEP_ID="+step) {
			return dir
		}
	}
	return ""
}

func isHolder(words []string) bool {
	return len(words) > 1 && filepath.Base(words[0]) == "slurmlet-container" && (words[1] == Hold || words[1] == MakeHere)
}
