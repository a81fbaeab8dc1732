// Package save writes a container's file system as a squashfs file, from which slurmlet and enroot can start another
// container. It runs as the job's user in the step's cgroup.
package save

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/sqfstar"
)

// every is how often a save tells how far it is.
const every = 30 * time.Second

// Check says whether a container can be saved to a path, as far as it is known before.
func Check(path string) error {
	if _, err := sqfstar.Find(); err != nil {
		return fmt.Errorf("--container-save: %w", err)
	}
	_, err := Resolve(path)
	return err
}

// Run saves the file system at a directory. The file appears when it is whole, in place of one that is there. A save that
// ctx ends leaves nothing.
func Run(ctx context.Context, from, path, node string, messages io.Writer) error {
	began := time.Now()
	say := func(format string, args ...any) { fmt.Fprintf(messages, "slurmlet: "+node+": "+format+"\n", args...) }
	path, err := Resolve(path)
	if err != nil {
		return err
	}
	program, err := sqfstar.Find()
	if err != nil {
		return fmt.Errorf("--container-save: %w", err)
	}
	root, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("cannot save the container, which runs no longer: %w", err)
	}
	defer root.Close()
	f, err := create(path, node)
	if err != nil {
		return fmt.Errorf("cannot save the container: %w", err)
	}
	defer f.close()
	say("saves the container to %s", path)
	var read atomic.Int64
	defer tell(func() { say("saves the container, %.1f MB so far", float64(read.Load())/1e6) })()
	w := &walker{ctx: ctx, links: map[inode]string{}, read: func(n int64) { read.Add(n) }}
	err = sqfstar.Write(ctx, program, path, f.File, func(out io.Writer) error {
		w.out = tar.NewWriter(out)
		return w.write(root)
	})
	if err == nil {
		err = f.finish(node)
	}
	if err != nil && (ctx.Err() != nil || sqfstar.Cancelled(err)) {
		return errors.New("the save is cancelled, and nothing of it is left")
	}
	if err != nil {
		return fmt.Errorf("cannot save the container: %w", err)
	}
	w.warn(say)
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("cannot save the container: %w", err)
	}
	say("has saved the container to %s, %.1f MB, in %v", path, float64(info.Size())/1e6, time.Since(began).Round(100*time.Millisecond))
	return nil
}

// warn tells what the file lacks.
func (w *walker) warn(say func(format string, args ...any)) {
	const most = 3
	if n := len(w.unreadable); n > 0 {
		say("the file lacks %d paths that you may not read: %v", n, w.unreadable[:min(n, most)])
	}
	if w.changed > 0 {
		say("%d files became shorter while they were read; zeros fill them", w.changed)
	}
	if w.others > 0 {
		say("the file lacks %d devices and sockets", w.others)
	}
}

// tell calls a function every few seconds, until the function that it returns is called.
func tell(say func()) (end func()) {
	ticks, ended := time.NewTicker(every), make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-ticks.C:
				say()
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(ended)
	}
}
