package copies

import (
	"errors"
	"fmt"
	"time"

	"github.com/fsnotify/fsnotify"
)

// calm is what a directory is left in peace for after a change: one edit makes
// several.
const calm = 20 * time.Millisecond

// Watch syncs at every change of From, and tells what came of it, until done is
// closed. From must be there.
func (d Dir) Watch(done <-chan struct{}, tell func(changed []string, err error)) error {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", d.From, err)
	}
	if err := files.Add(d.From); err != nil {
		return fmt.Errorf("cannot watch %s: %w", d.From, errors.Join(err, files.Close()))
	}
	go func() {
		defer files.Close()
		changed := time.NewTimer(0) // what was missed before the watch
		for {
			select {
			case <-done:
				return
			case <-files.Events:
				changed.Reset(calm)
			case <-files.Errors: //nolint:errcheck // some changes were lost: look again
				changed.Reset(calm)
			case <-changed.C:
				if changed, err := d.Sync(); len(changed) > 0 || err != nil {
					tell(changed, err)
				}
			}
		}
	}()
	return nil
}
