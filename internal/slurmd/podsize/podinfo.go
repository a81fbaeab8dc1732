package podsize

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/cgroup"
	"github.com/slurmlet/slurmlet/internal/slurm/nodesize"
)

// podInfo is what a downward-API volume holds (kubernetes.io, "Downward API"):
// the kubelet keeps its files up to date while the pod runs, which it cannot do
// for environment variables. Files that are not there say nothing.
type podInfo struct {
	labels, annotations map[string]string
	downward            downward
}

// The files of the volume, named as the documentation's example names them.
const (
	labelsFile      = "labels"
	annotationsFile = "annotations"
	cpuFile         = "cpu_limit"
	memoryFile      = "mem_limit"
)

// readPodInfo reads the volume at dir below root. The error holds every fault.
func readPodInfo(root, dir string) (podInfo, error) {
	var p podInfo
	read := func(name string, use func(text string) error) error {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(filepath.Join(root, path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read %s: %w", path, err)
		}
		if err := use(string(text)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	return p, errors.Join(
		read(labelsFile, func(text string) (err error) { p.labels, err = parsePairs(text); return err }),
		read(annotationsFile, func(text string) (err error) { p.annotations, err = parsePairs(text); return err }),
		read(cpuFile, func(text string) (err error) {
			p.downward.millicores, err = parseLimit(text, filepath.Join(dir, cpuFile), nodesize.ParseMillicores)
			return err
		}),
		read(memoryFile, func(text string) (err error) {
			p.downward.memory, err = parseLimit(text, filepath.Join(dir, memoryFile), nodesize.ParseBytes)
			return err
		}),
	)
}

func parseLimit(text, source string, parse func(string) (int64, error)) (cgroup.Bound[int64], error) {
	text = strings.TrimSpace(text)
	n, err := parse(text)
	if err != nil || n == 0 {
		return cgroup.Bound[int64]{}, fmt.Errorf("cannot use %q: %w", text, cmp.Or(err, errors.New("want more than 0")))
	}
	return cgroup.Bound[int64]{Value: n, Source: source}, nil
}

// parsePairs reads the form in which the kubelet writes labels and annotations:
// lines of name="value", the value quoted as in Go.
func parsePairs(text string) (map[string]string, error) {
	pairs := map[string]string{}
	number := 0
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		name, quoted, _ := strings.Cut(line, "=")
		value, err := strconv.Unquote(quoted)
		if err != nil || name == "" {
			return nil, fmt.Errorf(`line %d: want name="value", not %q`, number, line)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// finder looks a name up among annotations, then labels: the values of labels
// cannot hold a list. source says where in the volume at dir it was found.
func (p podInfo) finder(dir string) nodesize.Finder {
	return func(name string) (value, source string) {
		if value, found := p.annotations[name]; found {
			return value, filepath.Join(dir, annotationsFile) + ": " + name
		}
		if value, found := p.labels[name]; found {
			return value, filepath.Join(dir, labelsFile) + ": " + name
		}
		return "", ""
	}
}
