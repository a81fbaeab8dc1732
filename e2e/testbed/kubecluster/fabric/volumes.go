package fabric

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	"github.com/slurmlet/slurmlet/e2e/testbed/kubecluster/node"
	"github.com/slurmlet/slurmlet/e2e/testbed/sandbox/machine"
	"golang.org/x/sys/unix"
)

// shareVolumes makes the bed's volumes be where the controller manager makes
// them (its provisioner of host paths, which knows no other place), as on every
// node. The host's own /tmp stays in sight, and as it is.
func shareVolumes(dir string) error {
	upper, work, volumes := filepath.Join(dir, "tmp", "upper"), filepath.Join(dir, "tmp", "work"), filepath.Join(dir, Volumes)
	for _, d := range []string{upper, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("cannot share volumes: %v", err)
		}
	}
	if err := machine.Mount("tmp", "/tmp", "overlay", 0, fmt.Sprintf("lowerdir=/tmp,upperdir=%s,workdir=%s", upper, work)); err != nil {
		return err
	}
	if err := os.Mkdir(node.VolumesDir, 0o755); err != nil {
		return fmt.Errorf("cannot share volumes: %v", err)
	}
	if err := machine.Mount(volumes, node.VolumesDir, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	return openVolumes(volumes)
}

// openVolumes lets every user write to a new volume, as other provisioners do:
// the kubelet gives a host path to nobody (fsGroup). On the host, all that a
// guest makes belongs to root (hostfs).
func openVolumes(dir string) error {
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(dir)
	}
	if err != nil {
		return fmt.Errorf("cannot share volumes: %v", err)
	}
	go func() {
		for {
			select {
			case event := <-watcher.Events:
				if event.Has(fsnotify.Create) {
					openVolume(event.Name)
				}
			case <-watcher.Errors: //nolint:errcheck // some volumes were missed
				made, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is good
				for _, volume := range made {
					openVolume(volume)
				}
			}
		}
	}()
	return nil
}

func openVolume(path string) {
	if err := os.Chmod(path, 0o777); err != nil {
		say("a volume stays closed: %v", err)
	}
}
