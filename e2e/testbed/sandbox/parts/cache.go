package parts

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// entry is one thing in the cache.
type entry struct {
	name string // what it is, "kernel" or "root-24.11"
	key  string // the hash of what it is made from
}

// cacheDir is where all entries are: $SLURMLET_CACHE, else ~/.cache/slurmlet.
func cacheDir() (string, error) {
	if dir := os.Getenv("SLURMLET_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("cannot find the cache directory: %w", err)
	}
	return filepath.Join(home, ".cache", "slurmlet"), nil
}

// obtain returns the directory of e, which make fills when the cache has none.
//
// make works in a directory beside the final place, so that a build that was
// interrupted leaves nothing that looks complete. It may leave by a rename
// only: paths inside must not depend on where they are.
func (e entry) obtain(ctx context.Context, p Progress, make func(dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	final := filepath.Join(cache, e.name+"-"+e.key)
	if exists(final) {
		return final, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("cannot make the cache directory: %w", err)
	}
	unlock, err := Lock(ctx, filepath.Join(cache, e.name+".lock"), func() {
		p("%s: waits for another process that is building it", e.name)
	})
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(final) { // made while we waited
		return final, nil
	}
	return final, e.build(cache, final, make)
}

func (e entry) build(cache, final string, make func(dir string) error) error {
	// We hold the lock: whatever lies there was left by a build that died.
	left, err := filepath.Glob(filepath.Join(cache, e.name+".building-*"))
	if err != nil {
		return fmt.Errorf("cannot look for remains in the cache: %w", err)
	}
	for _, dir := range left {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("cannot remove what a dead build left: %w", err)
		}
	}
	dir, err := os.MkdirTemp(cache, e.name+".building-")
	if err != nil {
		return fmt.Errorf("cannot make a directory to build %s in: %w", e.name, err)
	}
	defer os.RemoveAll(dir) // nothing to remove after the rename
	// MkdirTemp makes it private, but the pods' users look into a root file system.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("cannot open the directory to build %s in: %w", e.name, err)
	}
	if err := make(dir); err != nil {
		return fmt.Errorf("cannot build %s: %w", e.name, err)
	}
	if err := os.Rename(dir, final); err != nil {
		return fmt.Errorf("cannot put %s into the cache: %w", e.name, err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
