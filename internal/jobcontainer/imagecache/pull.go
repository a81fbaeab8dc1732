package imagecache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Pull is the right to write one image, which one of the user's processes has at a time.
type Pull struct {
	cache  Cache
	digest string
	lock   *os.File
}

// betweenLooks separates two looks at a lock. A wait in flock(2) would not end with a context.
const betweenLooks = 50 * time.Millisecond

// Begin waits until nobody else pulls an image; waits is called once where somebody does. What a process that died has
// left of any pull is removed.
func (c Cache) Begin(ctx context.Context, digest string, waits func()) (*Pull, error) {
	c.sweep()
	for told := false; ; {
		lock, err := tryLock(c.file(digest, lockEnd), os.O_CREATE)
		switch {
		case err != nil:
			return nil, fmt.Errorf("cannot pull an image: %w", err)
		case lock != nil:
			p := &Pull{c, digest, lock}
			if err := p.clear(); err != nil {
				p.End()
				return nil, err
			}
			return p, nil
		case !told:
			waits()
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(betweenLooks):
		}
	}
}

// tryLock returns a file that it has locked, or nil where another process has.
func tryLock(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil && isLinked(f) { // otherwise its holder has removed it at its end
		return f, nil
	}
	_ = f.Close()
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("cannot lock %s: %w", path, err)
	}
	return nil, nil
}

// clear makes the pull's directory anew. A process that was killed may have left one.
func (p *Pull) clear() error {
	err := os.RemoveAll(p.Dir())
	if err == nil {
		err = os.Mkdir(p.Dir(), 0o700)
	}
	if err != nil {
		return fmt.Errorf("cannot pull an image: %w", err)
	}
	return nil
}

// Dir is an empty directory for the image on its way.
func (p *Pull) Dir() string { return p.cache.file(p.digest, pullEnd) }

// End removes what is not the image's.
func (p *Pull) End() {
	_ = os.RemoveAll(p.Dir()) // the next pull tries again
	unlock(p.lock)
}

// sweep ends the pulls of processes that are dead.
func (c Cache) sweep() {
	locks, _ := filepath.Glob(filepath.Join(c.Dir, "*"+lockEnd)) // its one error is a bad pattern
	for _, path := range locks {
		if lock, err := tryLock(path, 0); err == nil && lock != nil {
			digest := strings.Replace(strings.TrimSuffix(filepath.Base(path), lockEnd), "-", ":", 1)
			(&Pull{c, digest, lock}).End()
		}
	}
}
