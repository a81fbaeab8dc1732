// Package imagecache keeps the images that a user's steps have pulled on one node, or on all nodes that share a file
// system. It is a directory of that user's alone. Each image is a squashfs file, which is named after the digest of its
// manifest. refs has one file a reference: the digest that it had when its registry was asked last. Who uses an image
// has its file locked, shared, so that nobody removes it. Who pulls one has DIGEST.lock locked, and writes into
// DIGEST.pull.
package imagecache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Cache is one user's.
type Cache struct {
	Dir string
	// Limit is how many bytes the images may have together, apart from those in use.
	Limit int64
}

// DefaultLimit is the limit where the site gives none: some five images as large as PyTorch's.
const DefaultLimit = 50 << 30

// Of is a user's cache in the node's directory for containers. The plugin makes its directory, as root.
func Of(store string, uid int, limit int64) Cache {
	return Cache{Dir: filepath.Join(store, "images", strconv.Itoa(uid)), Limit: cmp.Or(limit, DefaultLimit)}
}

// Shared is a user's cache in a directory that nodes share, which this makes as that user.
func Shared(dir string, limit int64) (Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Cache{}, fmt.Errorf("cannot keep images: %w", err)
	}
	return Cache{Dir: dir, Limit: cmp.Or(limit, DefaultLimit)}, nil
}

// Check is an error unless the directory is this user's, and nobody else can enter it.
func (c Cache) Check() error {
	info, err := os.Lstat(c.Dir)
	if err != nil {
		return fmt.Errorf("cannot keep images: %w", err)
	}
	st, is := info.Sys().(*syscall.Stat_t)
	if !is || !info.IsDir() || int(st.Uid) != os.Getuid() || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("cannot keep images in %s: it is to be a directory of user %d with mode 0700, and is %v of user %d",
			c.Dir, os.Getuid(), info.Mode(), st.Uid)
	}
	return nil
}

// The ends of names in the directory. They begin with a digest, whose colon is a dash.
const (
	imageEnd = ".sqsh"
	lockEnd  = ".lock"
	pullEnd  = ".pull"
)

func (c Cache) file(digest, end string) string {
	return filepath.Join(c.Dir, strings.Replace(digest, ":", "-", 1)+end)
}

// Path is where an image is, once it has been pulled.
func (c Cache) Path(digest string) string { return c.file(digest, imageEnd) }

// Hold takes an image into use. Nobody removes it before the file is closed, also by processes that inherit it. It is
// nil where the image is not there.
func (c Cache) Hold(digest string) (*os.File, error) {
	for {
		f, err := os.Open(c.Path(digest))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read an image: %w", err)
		}
		// who has it locked otherwise is about to remove it
		if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock %s: %w", f.Name(), err)
		}
		if isLinked(f) {
			now := time.Now()
			_ = os.Chtimes(f.Name(), now, now) // the last use; without it the image goes too early
			return f, nil
		}
		_ = f.Close()
	}
}

// isLinked says whether a file that is open has a name still.
func isLinked(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0
}

// Image is one in the cache.
type Image struct {
	Digest string
	Size   int64
	Used   time.Time
	InUse  bool
	// References lead to it, by what their registries said last.
	References []string
}

// List returns the images, the longest unused first.
func (c Cache) List() ([]Image, error) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot list images: %w", err)
	}
	known := map[string][]string{}
	for _, k := range c.allKnown() {
		known[k.Image] = append(known[k.Image], k.Reference)
	}
	var all []Image
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), imageEnd)
		info, err := e.Info()
		if !is || err != nil { // another step has just removed it
			continue
		}
		digest := strings.Replace(name, "-", ":", 1)
		all = append(all, Image{digest, info.Size(), info.ModTime(), c.inUse(digest), known[digest]})
	}
	slices.SortFunc(all, func(a, b Image) int { return a.Used.Compare(b.Used) })
	return all, nil
}

func (c Cache) inUse(digest string) bool {
	f, err := c.openToLock(digest)
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// openToLock opens an image for an exclusive lock, which NFS gives only to those who may write (flock(2)).
func (c Cache) openToLock(digest string) (*os.File, error) {
	return os.OpenFile(c.Path(digest), os.O_RDWR, 0)
}

// ErrInUse says that a container runs from an image, so that the image stays.
var ErrInUse = errors.New("a container on this node runs from it")

// Remove removes one image.
func (c Cache) Remove(digest string) error {
	err := c.remove(digest)
	c.forget()
	return err
}

func (c Cache) remove(digest string) error {
	f, err := c.openToLock(digest)
	if err != nil {
		return fmt.Errorf("cannot remove an image: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return ErrInUse
	case err == nil:
		err = os.Remove(f.Name())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove an image: %w", err)
	}
	return nil
}

// MakeRoom removes images so that as many bytes more are below the limit, and fit onto the disk.
func (c Cache) MakeRoom(bytes int64) error {
	all, err := c.List()
	if err != nil {
		return err
	}
	most := c.Limit
	var disk unix.Statfs_t
	if unix.Statfs(c.Dir, &disk) == nil {
		most = min(most, total(all)+int64(disk.Bavail)*disk.Bsize)
	}
	return c.evict(all, most-bytes)
}

// Evict removes images, the longest unused first, until the rest is below the limit. What is in use stays.
func (c Cache) Evict() error {
	all, err := c.List()
	if err != nil {
		return err
	}
	return c.evict(all, c.Limit)
}

func (c Cache) evict(all []Image, most int64) error {
	var err error
	for rest := total(all); rest > most && len(all) > 0; all = all[1:] {
		failed := c.remove(all[0].Digest)
		if failed == nil {
			rest -= all[0].Size
		} else if !errors.Is(failed, ErrInUse) {
			err = errors.Join(err, failed)
		}
	}
	c.forget()
	return err
}

func total(all []Image) int64 {
	var sum int64
	for _, image := range all {
		sum += image.Size
	}
	return sum
}
