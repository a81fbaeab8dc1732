package save

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/layers"
)

// walker writes a directory tree as a tar. It follows no link, and what it reads of may change meanwhile: processes of
// the step, or of one that has joined the container, may still run.
type walker struct {
	ctx   context.Context
	out   *tar.Writer
	links map[inode]string // the first path of a file that has several
	// unreadable are paths that the user may not read.
	unreadable []string
	// changed counts files that have become shorter while they were read.
	changed int
	// others counts devices and sockets, which are left out.
	others int
	read   func(n int64)
}

type inode struct{ dev, ino uint64 }

// write writes the tree below root, and then enroot's files where it lacks them.
func (w *walker) write(root *os.File) error {
	if err := w.list(root, ""); err != nil {
		return err
	}
	if err := w.addEnroot(root); err != nil {
		return err
	}
	return w.out.Close()
}

// list writes what is in a directory, whose path is empty for the root.
func (w *walker) list(dir *os.File, path string) error {
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("cannot list /%s: %w", path, err)
	}
	slices.Sort(names)
	for _, name := range names {
		if path == "" && (name == ".slurmlet" || name == ".nvidia") { // the node's own is mounted there
			continue
		}
		if err := w.add(dir, name, strings.TrimPrefix(path+"/"+name, "/")); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) add(dir *os.File, name, path string) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("cannot read /%s: %w", path, err)
	}
	kind := st.Mode & unix.S_IFMT
	if first, is := w.links[inode{st.Dev, st.Ino}]; is && kind != unix.S_IFDIR {
		return w.header(path, &st, &tar.Header{Typeflag: tar.TypeLink, Linkname: first})
	}
	switch kind {
	case unix.S_IFDIR, unix.S_IFREG:
		err = w.open(dir, name, path, kind)
	case unix.S_IFLNK:
		err = w.symlink(dir, name, path, &st)
	case unix.S_IFIFO:
		err = w.header(path, &st, &tar.Header{Typeflag: tar.TypeFifo})
	default:
		w.others++
		return nil
	}
	return err
}

// open writes a directory or a regular file.
func (w *walker) open(dir *os.File, name, path string, kind uint32) error {
	flags := unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP):
		return nil // it has just been removed, or replaced by a link
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		w.unreadable = append(w.unreadable, path)
		return nil
	case err != nil:
		return fmt.Errorf("cannot read /%s: %w", path, err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("cannot read /%s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != kind {
		return nil // it has just been replaced
	}
	if kind == unix.S_IFREG {
		return w.writeFile(f, path, &st)
	}
	if err := w.header(path+"/", &st, &tar.Header{Typeflag: tar.TypeDir, PAXRecords: attributes(fd)}); err != nil {
		return err
	}
	if path == "dev" { // the node's own is mounted there
		return nil
	}
	return w.list(f, path)
}

func (w *walker) writeFile(f *os.File, path string, st *unix.Stat_t) error {
	err := w.header(path, st, &tar.Header{Typeflag: tar.TypeReg, Size: st.Size, PAXRecords: attributes(int(f.Fd()))})
	if err != nil {
		return err
	}
	n, err := io.Copy(w.out, io.LimitReader(counted{f, w.read}, st.Size))
	if err != nil && !errors.Is(err, unix.EPIPE) { // sqfstar has ended, and says why
		return fmt.Errorf("cannot read /%s: %w", path, err)
	}
	if err == nil && n < st.Size { // the tar says how long it is
		w.changed++
		_, err = io.CopyN(w.out, zeros{}, st.Size-n)
	}
	return err
}

func (w *walker) symlink(dir *os.File, name, path string, st *unix.Stat_t) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(dir.Fd()), name, target)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil // it has just been removed or replaced
	}
	if err != nil {
		return fmt.Errorf("cannot read the link /%s: %w", path, err)
	}
	return w.header(path, st, &tar.Header{Typeflag: tar.TypeSymlink, Linkname: string(target[:n])})
}

// header writes an entry as layers' Writer has it: what the container's user owns can be read, and its directories can
// be written.
func (w *walker) header(path string, st *unix.Stat_t, h *tar.Header) error {
	if h.Typeflag == tar.TypeReg && st.Nlink > 1 {
		w.links[inode{st.Dev, st.Ino}] = path
	}
	h.Name, h.Mode, h.ModTime = path, int64(st.Mode&0o7777), time.Unix(max(st.Mtim.Sec, 0), 0)
	switch h.Typeflag {
	case tar.TypeDir:
		h.Mode |= 0o700
	case tar.TypeReg, tar.TypeLink:
		h.Mode |= 0o400
	}
	if err := w.out.WriteHeader(h); err != nil {
		if errors.Is(err, tar.ErrHeader) {
			return fmt.Errorf("%q cannot be written: %w", path, err)
		}
		return err
	}
	return nil
}

// addEnroot adds the files from which enroot starts a container.
func (w *walker) addEnroot(root *os.File) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(root.Fd()), "etc", &st, unix.AT_SYMLINK_NOFOLLOW)
	directory := unix.Stat_t{Mode: unix.S_IFDIR | 0o755, Mtim: unix.Timespec{Sec: time.Now().Unix()}}
	switch {
	case errors.Is(err, unix.ENOENT):
		if err := w.header("etc/", &directory, &tar.Header{Typeflag: tar.TypeDir}); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("cannot read /etc: %w", err)
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil // a link; enroot cannot write there either
	}
	for _, f := range []struct {
		path, text string
		mode       uint32
	}{
		{"etc/environment", "", 0o644},
		{"etc/fstab", "", 0o644},
		{"etc/rc", layers.Start(nil, "/", "", " '/bin/sh'"), 0o755},
		{"etc/rc.local", layers.StartLocal, 0o644},
	} {
		if err := unix.Fstatat(int(root.Fd()), f.path, &st, unix.AT_SYMLINK_NOFOLLOW); !errors.Is(err, unix.ENOENT) {
			continue
		}
		made := unix.Stat_t{Mode: unix.S_IFREG | f.mode, Mtim: directory.Mtim}
		err := w.header(f.path, &made, &tar.Header{Typeflag: tar.TypeReg, Size: int64(len(f.text))})
		if err == nil {
			_, err = io.WriteString(w.out, f.text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// attributes are a file's extended ones of users, but for overlay's own.
func attributes(fd int) map[string]string {
	names := make([]byte, 1<<16)
	n, err := unix.Flistxattr(fd, names)
	if err != nil {
		return nil // a file system without them
	}
	var all map[string]string
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		value := make([]byte, 1<<16)
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil || strings.ContainsRune(name, '=') {
			continue
		}
		if all == nil {
			all = map[string]string{}
		}
		all["SCHILY.xattr."+name] = string(value[:n])
	}
	return all
}

// counted tells how much is read.
type counted struct {
	from io.Reader
	read func(n int64)
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read(int64(n))
	return n, err
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
