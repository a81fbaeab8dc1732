package tempdirs

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Kind says what a directory's files take.
type Kind int

// The kinds.
const (
	// Elsewhere is a volume that is not counted against the pod.
	Elsewhere Kind = iota
	// Memory is a tmpfs: its files count as memory of the container.
	Memory
	// Disk is the container's writable layer, or an emptyDir on the machine's disk. The kubelet counts
	// its files against the limit of ephemeral storage.
	Disk
)

// Dir is a directory and what lies below it on the same file system.
type Dir struct {
	Path string
	Kind Kind
	// Layer: it is a part of the container's root, so files that are older than the container are the
	// image's.
	Layer bool
}

// emptyDirsPath is in the path of each emptyDir on the machine (proc_pid_mountinfo(5), the mount's root).
const emptyDirsPath = "/kubernetes.io~empty-dir/"

// Locate finds what kind each directory is of, by /proc/self/mountinfo. A directory that is below
// another one of the same mount is left out.
func Locate(mountinfo string, paths []string) (all []Dir) {
	mounts := parseMounts(mountinfo)
	for _, path := range paths {
		d := Dir{Path: path, Kind: Elsewhere}
		m := mounts.of(path)
		switch {
		case m.fstype == "tmpfs" || m.fstype == "ramfs":
			d.Kind = Memory
		case m.point == "/":
			d.Kind, d.Layer = Disk, true
		case strings.Contains(m.root, emptyDirsPath):
			d.Kind = Disk
		}
		inside := slices.ContainsFunc(all, func(o Dir) bool { return within(path, o.Path) && mounts.of(o.Path).point == m.point })
		if !inside {
			all = append(all, d)
		}
	}
	return all
}

// EmptyDirs are the mount points of the emptyDir volumes on the machine's disk.
func EmptyDirs(mountinfo string) (all []string) {
	for _, m := range parseMounts(mountinfo) {
		if strings.Contains(m.root, emptyDirsPath) && m.fstype != "tmpfs" {
			all = append(all, m.point)
		}
	}
	return all
}

type mountPoint struct{ root, point, fstype string }

type mountPoints []mountPoint

func parseMounts(mountinfo string) (all mountPoints) {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) >= 5 && len(kind) > 0 {
			all = append(all, mountPoint{fields[3], fields[4], kind[0]})
		}
	}
	return all
}

// of is the mount that a path is on: the last one of the longest point.
func (all mountPoints) of(path string) (best mountPoint) {
	for _, m := range all {
		if within(path, m.point) && len(m.point) >= len(best.point) {
			best = m
		}
	}
	return best
}

func within(path, above string) bool {
	return path == above || above == "/" || strings.HasPrefix(path, above+"/")
}

// Holding is what the files of one user take in one directory.
type Holding struct {
	UID   int
	Dir   Dir
	Bytes int64
}

// Usage counts the files below each directory, by their owners, the largest holdings first. Files of an
// image, which are older than since, do not count. It ends with ctx, and returns what it has counted.
func Usage(ctx context.Context, root string, dirs []Dir, since time.Time) ([]Holding, error) {
	var all []Holding
	for _, d := range dirs {
		byUser := map[int]int64{}
		err := walk(ctx, filepath.Join(root, d.Path), func(_ string, is *syscall.Stat_t) {
			if !d.Layer || time.Unix(is.Ctim.Unix()).After(since) {
				byUser[int(is.Uid)] += is.Blocks * 512 / int64(max(1, links(is)))
			}
		})
		for uid, bytes := range byUser {
			if bytes > 0 {
				all = append(all, Holding{uid, d, bytes})
			}
		}
		if err != nil {
			return sorted(all), err
		}
	}
	return sorted(all), nil
}

// links are the names of a file, each of which counts a part.
func links(is *syscall.Stat_t) uint64 {
	if is.Mode&syscall.S_IFMT == syscall.S_IFDIR {
		return 1
	}
	return uint64(is.Nlink) //nolint:unconvert // it is 32 bits wide on some architectures
}

func sorted(all []Holding) []Holding {
	slices.SortFunc(all, func(a, b Holding) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.UID, b.UID), strings.Compare(a.Dir.Path, b.Dir.Path))
	})
	return all
}

// walk calls see for what is below dir on the same file system. What goes away meanwhile is passed over.
func walk(ctx context.Context, dir string, see func(path string, is *syscall.Stat_t)) error {
	top, err := os.Stat(dir)
	if err != nil {
		return nil //nolint:nilerr // it is not there
	}
	device := top.Sys().(*syscall.Stat_t).Dev
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if ended := ctx.Err(); ended != nil {
			return ended
		}
		if err != nil || path == dir {
			return nil //nolint:nilerr // it has gone, or may not be read
		}
		info, err := entry.Info()
		if err != nil {
			return nil //nolint:nilerr // it has gone
		}
		is := info.Sys().(*syscall.Stat_t)
		if entry.IsDir() && is.Dev != device {
			return filepath.SkipDir
		}
		see(path, is)
		return nil
	})
}
