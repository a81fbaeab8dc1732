package slurmdbd

import (
	"compress/gzip"
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

func fill(text string) func(io.Writer) error {
	return func(to io.Writer) error {
		_, err := io.WriteString(to, text)
		return err
	}
}

// TestWriteDump: what is there under a dump's name is whole, for the agent's user alone, and stays.
func TestWriteDump(t *testing.T) {
	dir := t.TempDir()
	d := &Database{Options: Options{DumpDir: dir}}
	write := func(name, text string) string {
		t.Helper()
		file, err := d.write("acct", filepath.Join(dir, name), fill(text))
		require.NoError(t, err)
		return filepath.Base(file)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "acct-before-26.05-20260101T000000Z.sql.gz.new"), []byte("cut off"), 0o600))
	require.Equal(t, "acct-before-26.05-20260102T000000Z.sql.gz", write("acct-before-26.05-20260102T000000Z.sql.gz", "one"))
	require.Equal(t, "acct-before-26.05-20260102T000000Z.sql.gz", write("acct-before-26.05-20260103T000000Z.sql.gz", "one"), "it is the same")
	require.Equal(t, "acct-before-26.05-20260104T000000Z.sql.gz", write("acct-before-26.05-20260104T000000Z.sql.gz", "two"))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2)
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, "-rw-------", info.Mode().String())
	}
	f, err := os.Open(filepath.Join(dir, entries[1].Name()))
	require.NoError(t, err)
	defer f.Close()
	r, err := gzip.NewReader(f)
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "two", string(text))
}

// TestFullVolume: a dump that does not fit leaves nothing, ends the container, and says what to do.
func TestFullVolume(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it mounts a file system")
	}
	runtime.LockOSThread() // the thread ends with the test, and its mounts with it
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNS))
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"))
	d := &Database{Options: Options{DumpDir: dir}}
	_, err := d.write("acct", filepath.Join(dir, "acct-before-26.05-20260102T000000Z.sql.gz"), func(to io.Writer) error {
		_, err := io.CopyN(to, rand.Reader, 1<<20)
		return err
	})
	require.ErrorIs(t, err, unix.ENOSPC)
	err = d.whyNot(err, dbd{loc: "acct"}, "26.05")
	require.Equal(t, exitcode.Config, exitcode.Of(err))
	require.ErrorContains(t, err, "cannot dump the database acct before Slurm 26.05 converts it, so slurmdbd is not started")
	require.ErrorContains(t, err, "make the volume larger (accounting.dumps.size)")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH))
}

// TestKeepsTrying: a database that goes away in the middle of a dump is dumped again after a pause, and slurmdbd waits.
func TestKeepsTrying(t *testing.T) {
	away, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := away.Addr().String()
	require.NoError(t, away.Close())
	d := &Database{Options: Options{DumpDir: t.TempDir(), Log: func(slog.Level, string, ...slog.Attr) {}, Done: make(chan struct{})}}
	storage := mysql.NewConfig()
	storage.Net, storage.Addr = "tcp", address
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, want := range []string{"slurmdbd starts when the dump", "so slurmdbd is not started: ", "is tried again at 2", "slurmdbd starts when the dump"} {
		for {
			err := d.keep(dbd{loc: "acct", storage: storage}, "26.05")
			require.Error(t, err)
			require.NotEqual(t, exitcode.Config, exitcode.Of(err), "the container stays")
			if strings.Contains(err.Error(), want) {
				break
			}
			require.NoError(t, ctx.Err(), "%v, not %s", err, want)
			runtime.Gosched()
		}
	}
	none := &Database{Options: Options{DumpDir: NoDump}}
	require.NoError(t, none.keep(dbd{loc: "acct", storage: storage}, "26.05"))
}

func TestAppendValue(t *testing.T) {
	for want, given := range map[string]struct {
		value  any
		binary bool
	}{
		"NULL": {nil, true}, "-7": {int64(-7), false}, "18446744073709551615": {^uint64(0), false},
		"0.1": {0.1, false}, "-1e+300": {-1e300, false}, "2.5": {float32(2.5), false},
		"0x00ff27": {[]byte{0, 255, '\''}, true}, "''": {[]byte{}, true},
		`'it\'s \\ \0\n\r\Z ä'`: {[]byte("it's \\ \x00\n\r\x1a ä"), false},
	} {
		got, err := appendValue(nil, given.value, given.binary)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := appendValue(nil, time.Now(), false)
	require.Error(t, err)
}
