package privatedirs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
)

// Probe prints whether jobs of this node can have directories and processes of their own, and otherwise why not.
func Probe(store string, out io.Writer) {
	for _, p := range []struct {
		name string
		spec Spec
	}{{"private_dirs", Spec{Dirs: []string{"/tmp"}}}, {"private_processes", Spec{Processes: true}}} {
		p.spec.State = filepath.Join(store, "jobs", "probe-"+p.name+"-"+strconv.Itoa(os.Getpid()))
		said := "yes"
		if err := p.spec.try(); err != nil {
			said = "no: " + err.Error()
		}
		fmt.Fprintf(out, "%s: %s\n", p.name, said)
	}
}

func (s Spec) try() error {
	if os.Getuid() != 0 {
		return fmt.Errorf("root makes them, and you are %d", os.Getuid())
	}
	lifeline, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot make the job's namespaces: %w", err)
	}
	defer lifeline.Close()
	defer write.Close()
	defer os.RemoveAll(s.State)
	return s.make(lifeline)
}
