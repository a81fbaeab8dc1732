package native

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Volume is a ConfigMap's in the cluster's root, as the kubelet writes it: files are links
// through ..data, which is swapped.
type Volume struct {
	dir    string
	number int
}

// NewVolume makes one with these files at dir, a path in the cluster's root.
func (c *Cluster) NewVolume(dir string, files map[string][]byte) (*Volume, error) {
	v := &Volume{dir: filepath.Join(c.Root, dir)}
	err := os.Mkdir(v.dir, 0o755)
	if err == nil {
		_, err = v.Swap(files)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			err = os.Symlink(filepath.Join("..data", name), filepath.Join(v.dir, name))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make a volume: %w", err)
	}
	return v, nil
}

// Swap puts other files of the same names in place at once, and returns when it did.
func (v *Volume) Swap(files map[string][]byte) (time.Time, error) {
	v.number++
	next, former := fmt.Sprintf("..%d", v.number), fmt.Sprintf("..%d", v.number-1)
	err := os.Mkdir(filepath.Join(v.dir, next), 0o755)
	for name, data := range files {
		if err == nil {
			err = os.WriteFile(filepath.Join(v.dir, next, name), data, 0o600)
		}
	}
	if err == nil {
		err = os.Symlink(next, filepath.Join(v.dir, "..data_tmp"))
	}
	at := time.Now()
	if err == nil {
		err = os.Rename(filepath.Join(v.dir, "..data_tmp"), filepath.Join(v.dir, "..data"))
	}
	err = errors.Join(err, os.RemoveAll(filepath.Join(v.dir, former)))
	if err != nil {
		err = fmt.Errorf("cannot edit the volume: %w", err)
	}
	return at, err
}

// Sources are the files of the cluster that slurmctld's agent is given.
func (c *Cluster) Sources() (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, name := range []string{"slurm.conf", "cgroup.conf", "slurm.key"} {
		data, err := os.ReadFile(filepath.Join(c.Root, "etc/slurm", name))
		if err != nil {
			return nil, fmt.Errorf("cannot read the cluster's configuration: %w", err)
		}
		files[name] = data
	}
	return files, nil
}
