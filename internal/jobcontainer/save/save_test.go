package save

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// walk returns what a directory's tar has, as "path kind link-or-text".
func walk(t *testing.T, root string) (entries []string, headers map[string]*tar.Header, w *walker) {
	var out bytes.Buffer
	w = &walker{ctx: context.Background(), out: tar.NewWriter(&out), links: map[inode]string{}, read: func(int64) {}}
	dir, err := os.Open(root)
	require.NoError(t, err)
	defer dir.Close()
	require.NoError(t, w.write(dir))
	headers = map[string]*tar.Header{}
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, headers, w
		}
		require.NoError(t, err)
		text, err := io.ReadAll(r)
		require.NoError(t, err)
		entries = append(entries, fmt.Sprintf("%s %c %s%s", h.Name, h.Typeflag, h.Linkname, text))
		headers[h.Name] = h
	}
}

func put(t *testing.T, path, text string, mode os.FileMode) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), mode))
}

func TestTree(t *testing.T) {
	root := t.TempDir()
	at := func(path string) string { return filepath.Join(root, path) }
	put(t, at("a/one"), "one", 0o640)
	require.NoError(t, os.Link(at("a/one"), at("b")))
	require.NoError(t, os.Symlink("../..", at("a/up")))
	require.NoError(t, unix.Mkfifo(at("fifo"), 0o600))
	put(t, at("dev/null"), "no device", 0o644)
	put(t, at("etc/environment"), "KEPT=1\n", 0o600)
	put(t, at("write-only"), "x", 0o200)
	socket, err := net.Listen("unix", at("socket"))
	require.NoError(t, err)
	defer socket.Close()
	entries, headers, w := walk(t, root)
	assert.Equal(t, []string{
		"a/ 5 ", "a/one 0 one", "a/up 2 ../..", "b 1 a/one", "dev/ 5 ", "etc/ 5 ", "etc/environment 0 KEPT=1\n", "fifo 6 ",
	}, entries[:8])
	assert.Equal(t, 1, w.others)
	assert.EqualValues(t, 0o640, headers["a/one"].Mode)
	if os.Getuid() != 0 {
		assert.Equal(t, []string{"write-only"}, w.unreadable)
	} else {
		assert.EqualValues(t, 0o600, headers["write-only"].Mode, "its owner can read it")
	}
	// those that the image lacks
	var added []string
	for name := range headers {
		if strings.HasPrefix(name, "etc/") {
			added = append(added, name)
		}
	}
	slices.Sort(added)
	assert.Equal(t, []string{"etc/", "etc/environment", "etc/fstab", "etc/rc", "etc/rc.local"}, added)
	assert.EqualValues(t, 0o755, headers["etc/rc"].Mode)
}

func TestAnEmptyTreeGetsEnrootsFiles(t *testing.T) {
	entries, _, _ := walk(t, t.TempDir())
	require.NotEmpty(t, entries)
	assert.Equal(t, "etc/ 5 ", entries[0])
	assert.Contains(t, strings.Join(entries, "\n"), `cd "/" && unset OLDPWD`)
	link := t.TempDir()
	require.NoError(t, os.Symlink("usr", filepath.Join(link, "etc")))
	entries, _, _ = walk(t, link)
	assert.Equal(t, []string{"etc 2 usr"}, entries)
}

func TestExtendedAttributes(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "file")
	put(t, path, "x", 0o644)
	if err := unix.Setxattr(path, "user.kept", []byte("a\x00b"), 0); err != nil {
		t.Skipf("no extended attributes here: %v", err)
	}
	require.NoError(t, unix.Setxattr(path, "user.overlay.origin", []byte("x"), 0))
	_, headers, _ := walk(t, root)
	assert.Equal(t, map[string]string{"SCHILY.xattr.user.kept": "a\x00b"}, headers["file"].PAXRecords)
}

func TestAFileThatBecomesShorter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put(t, path, "abc", 0o644)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(int(f.Fd()), &st))
	st.Size = 5
	var out bytes.Buffer
	w := &walker{ctx: context.Background(), out: tar.NewWriter(&out), links: map[inode]string{}, read: func(int64) {}}
	require.NoError(t, w.writeFile(f, "file", &st))
	require.NoError(t, w.out.Close())
	r := tar.NewReader(&out)
	_, err = r.Next()
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	assert.Equal(t, "abc\x00\x00", string(text))
	assert.Equal(t, 1, w.changed)
}

func names(t *testing.T, dir string) (all []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestAFileAppearsWhole(t *testing.T) {
	for name, make := range map[string]func(path, node string) (*file, error){"without a name": create, "with a name": createNamed} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a[b]*")
			path := filepath.Join(dir, "x.sqsh")
			put(t, path, "old", 0o600)
			f, err := make(path, "n1")
			require.NoError(t, err)
			f.close()
			assert.Equal(t, []string{"x.sqsh"}, names(t, dir), "nothing is left of one that is not finished")
			f, err = make(path, "n1")
			require.NoError(t, err)
			_, err = f.WriteString("new")
			require.NoError(t, err)
			require.NoError(t, f.finish("n1"))
			f.close()
			assert.Equal(t, []string{"x.sqsh"}, names(t, dir))
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.Equal(t, "new", string(text))
		})
	}
}

// TestWhatAKilledSaveHasLeft: on a file system that knows no file without a name, the next save removes it.
func TestWhatAKilledSaveHasLeft(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * leastAge)
	for _, name := range []string{"n1-killed", "n1-young", "n1-running", "n2-killed"} {
		path := filepath.Join(dir, prefix+name)
		put(t, path, "", 0o600)
		if name != "n1-young" {
			require.NoError(t, os.Chtimes(path, old, old))
		}
	}
	running, err := os.Open(filepath.Join(dir, prefix+"n1-running"))
	require.NoError(t, err)
	defer running.Close()
	require.NoError(t, unix.Flock(int(running.Fd()), unix.LOCK_EX))
	f, err := createNamed(filepath.Join(dir, "x.sqsh"), "n1")
	require.NoError(t, err)
	f.close()
	assert.Equal(t, []string{prefix + "n1-running", prefix + "n1-young", prefix + "n2-killed"}, names(t, dir))
}

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	put(t, filepath.Join(dir, "real/there"), "", 0o644)
	require.NoError(t, os.Symlink("real/there", filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink("real", filepath.Join(dir, "way")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o755))
	for path, want := range map[string]string{
		"new": "new", "link": "real/there", "way/new": "real/new", "real/there": "real/there",
	} {
		got, err := Resolve(filepath.Join(dir, path))
		require.NoError(t, err, path)
		assert.Equal(t, filepath.Join(dir, want), got, path)
	}
	for path, why := range map[string]string{"dir": "is no file", "gone/x": "no such file", "real/there/x": "not a directory"} {
		_, err := Resolve(filepath.Join(dir, path))
		require.ErrorContains(t, err, why, path)
	}
	t.Chdir(dir)
	got, err := Resolve("x.sqsh")
	require.NoError(t, err)
	assert.Equal(t, filepath.Join(dir, "x.sqsh"), got)
}

// TestNodesOfOnePath: nodes that save to one path at once leave one whole file, of one of them.
func TestNodesOfOnePath(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.sqsh")
	var all sync.WaitGroup
	for n := range 8 {
		node := fmt.Sprint("n", n)
		all.Go(func() {
			make := create
			if n%2 == 0 { // as on NFS
				make = createNamed
			}
			f, err := make(path, node)
			if !assert.NoError(t, err) {
				return
			}
			defer f.close()
			for range 1000 {
				_, err = io.WriteString(f, node+"\n")
				assert.NoError(t, err)
			}
			assert.NoError(t, f.finish(node))
		})
	}
	all.Wait()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	lines := strings.Fields(string(text))
	assert.Len(t, lines, 1000)
	assert.Len(t, slices.Compact(lines), 1, "the file is of one node")
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, names, 1, "nothing else is left")
}
