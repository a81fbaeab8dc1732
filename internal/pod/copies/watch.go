package copies

import (
	"fmt"
	"os"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// calm is how long a directory is left alone after a change: one edit makes several.
const calm = 20 * time.Millisecond

// Watch syncs at every change of From, and reports the result, until done is closed. From
// must exist. Where inotify's limits are reached, it syncs once a minute.
func (d Dir) Watch(done <-chan struct{}, report func(changed []string, err error)) error {
	if _, err := os.Stat(d.From); err != nil {
		return fmt.Errorf("cannot watch %s: %w", d.From, err)
	}
	go d.watch(watch.Options{Done: done}, report)
	return nil
}

func (d Dir) watch(o watch.Options, report func(changed []string, err error)) {
	o.Calm = watch.For(calm)
	o.Changed = func() {
		if changed, err := d.Sync(); len(changed) > 0 || err != nil {
			report(changed, err)
		}
	}
	w := watch.New(o)
	if err := w.Add(d.From); err != nil {
		w.Tick(watch.Every)
	}
	w.Look() // a change before the watch has no event
	w.Run()
}
