package copies

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// calm is what a directory is left in peace for after a change: one edit makes
	// several.
	calm = 20 * time.Millisecond
	// lookEvery is how often it is looked at where the kernel cannot tell.
	lookEvery = time.Minute
)

// Watch syncs at every change of From, and tells what came of it, until done is
// closed. From must be there. Where inotify's limits are reached
// (fs.inotify.max_user_instances and max_user_watches), it syncs once a minute.
func (d Dir) Watch(done <-chan struct{}, tell func(changed []string, err error)) error {
	if _, err := os.Stat(d.From); err != nil {
		return fmt.Errorf("cannot watch %s: %w", d.From, err)
	}
	files, err := watcher(d.From)
	if err != nil {
		go d.follow(done, nil, nil, time.Tick(lookEvery), tell)
		return nil
	}
	go func() {
		defer files.Close()
		d.follow(done, files.Events, files.Errors, nil, tell)
	}()
	return nil
}

func watcher(dir string) (*fsnotify.Watcher, error) {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	if err := files.Add(dir); err != nil {
		return nil, errors.Join(err, files.Close())
	}
	return files, nil
}

func (d Dir) follow(done <-chan struct{}, events <-chan fsnotify.Event, faults <-chan error, slow <-chan time.Time, tell func(changed []string, err error)) {
	changed := time.NewTimer(0) // what was missed before the watch
	for {
		select {
		case <-done:
			return
		case <-events:
			changed.Reset(calm)
		case <-faults: //nolint:errcheck // some changes were lost: look again
			changed.Reset(calm)
		case <-slow:
			changed.Reset(0)
		case <-changed.C:
			if changed, err := d.Sync(); len(changed) > 0 || err != nil {
				tell(changed, err)
			}
		}
	}
}
