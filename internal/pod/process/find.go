package process

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
)

// Find looks a program up in PATH. It returns an absolute path: Slurm's daemons execute
// argv[0] again.
func Find(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("cannot find the program %s: %w", name, errors.Unwrap(err))
	}
	return filepath.Abs(path)
}
