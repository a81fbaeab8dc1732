package gres

import (
	"fmt"
	"os"
	"strings"
)

// WriteConf makes the file that the cluster's gres.conf includes, without a line where there is no device: a daemon that
// misses an included file waits for it for a minute.
func WriteConf(path string, lines []string) error {
	all := append([]string{"# slurmlet writes this at its start: the devices of this container (gres.conf(5))."}, lines...)
	text := strings.Join(all, "\n") + "\n"
	// Never seen half-written: slurmd reads it whenever it is reconfigured.
	err := os.WriteFile(path+".new", []byte(text), 0o644)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		return fmt.Errorf("cannot write gres.conf: %w", err)
	}
	return nil
}
