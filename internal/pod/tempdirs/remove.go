package tempdirs

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Removed sums up what Remove has removed.
type Removed struct {
	Files int
	Bytes int64
}

// Remove removes a user's files below a directory that have not changed since a moment, and the user's
// directories that are empty then. It follows no link and leaves the file system of the directory
// never. What cannot be removed stays; the error is ctx's.
func Remove(ctx context.Context, root string, d Dir, uid int, since time.Time) (Removed, error) {
	top, err := os.OpenRoot(filepath.Join(root, d.Path))
	if err != nil {
		return Removed{}, nil //nolint:nilerr // it is not there
	}
	defer top.Close()
	info, err := top.Stat(".")
	if err != nil {
		return Removed{}, nil //nolint:nilerr // it is not there
	}
	r := removal{ctx: ctx, uid: uint32(uid), since: since, device: info.Sys().(*syscall.Stat_t).Dev} //nolint:gosec // a user's number
	err = r.in(top)
	return r.done, err
}

type removal struct {
	ctx    context.Context
	uid    uint32
	since  time.Time
	device uint64
	done   Removed
}

func (r *removal) in(dir *os.Root) error {
	opened, err := dir.Open(".")
	if err != nil {
		return nil //nolint:nilerr // it may not be read
	}
	entries, _ := opened.ReadDir(-1)
	opened.Close()
	for _, e := range entries {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		info, err := dir.Lstat(e.Name())
		if err != nil {
			continue // it has gone
		}
		is := info.Sys().(*syscall.Stat_t)
		if info.IsDir() {
			if err := r.below(dir, info, is); err != nil {
				return err
			}
		}
		if is.Uid == r.uid && time.Unix(is.Ctim.Unix()).Before(r.since) && dir.Remove(e.Name()) == nil {
			r.done.Files++
			r.done.Bytes += is.Blocks * 512
		}
	}
	return nil
}

// below goes into a directory, unless it is another one by now.
func (r *removal) below(dir *os.Root, info fs.FileInfo, is *syscall.Stat_t) error {
	if is.Dev != r.device {
		return nil
	}
	inside, err := dir.OpenRoot(info.Name())
	if err != nil {
		return nil //nolint:nilerr // it has gone
	}
	defer inside.Close()
	if now, err := inside.Stat("."); err != nil || !os.SameFile(info, now) {
		return nil //nolint:nilerr // it was replaced
	}
	return r.in(inside)
}
