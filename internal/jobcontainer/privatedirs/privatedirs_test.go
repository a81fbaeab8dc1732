package privatedirs

import (
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == Hold {
		if err := RunHolder(); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestParse(t *testing.T) {
	for list, want := range map[string][]string{
		"/tmp":                   {"/tmp"},
		"/var/tmp,/tmp,/dev/shm": {"/dev/shm", "/tmp", "/var/tmp"},
		"/tmp/a,/tmp,/tmp":       {"/tmp", "/tmp/a"},
	} {
		got, err := Parse(list)
		require.NoError(t, err, list)
		assert.Equal(t, want, got)
	}
	for _, list := range []string{"", "/", "tmp", "/tmp/", "/tmp,", "/etc", "/tmp,/dev", "/tmp/../etc"} {
		_, err := Parse(list)
		assert.ErrorContains(t, err, "private_dirs="+list+": want absolute paths", list)
	}
}

// TestHolder: a holder ends by its lifeline, and leaves nothing; one that was killed leaves what the next one removes.
func TestHolder(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root makes a job's namespaces")
	}
	dir := t.TempDir()
	s := Spec{Dirs: []string{"/dev/shm"}, State: filepath.Join(dir, "7"), Size: 1}
	lifeline, write, err := os.Pipe()
	require.NoError(t, err)
	defer lifeline.Close()
	require.NoError(t, Make(s, lifeline))
	text, err := os.ReadFile(filepath.Join(s.State, holderFile))
	require.NoError(t, err)
	assert.Regexp(t, `^[0-9]+ (user )?mnt\n$`, string(text))
	_, err = lockOf(filepath.Join(s.State, lockFile), unix.LOCK_EX|unix.LOCK_NB)
	require.ErrorIs(t, err, unix.EWOULDBLOCK)
	require.NoError(t, write.Close())
	require.Eventually(t, func() bool { return !exists(s.State) }, time.Minute, time.Millisecond)

	old, refused := filepath.Join(dir, "8"), filepath.Join(dir, "9")
	require.NoError(t, os.Mkdir(old, 0o755))
	require.ErrorIs(t, Refuse(Spec{State: refused}, os.ErrInvalid), os.ErrInvalid)
	sweep(dir)
	assert.False(t, exists(old))
	assert.True(t, exists(filepath.Join(refused, problemFile)), "steps of that job are still to be told")
	require.NoError(t, os.Chtimes(filepath.Join(refused, problemFile), time.Time{}, time.Now().Add(-2*longestAsked)))
	sweep(dir)
	assert.False(t, exists(refused))
}

func TestWhatCannotBeADirectory(t *testing.T) {
	for dir, why := range map[string]string{
		"/missing":    "private_dirs: lstat /missing: no such file or directory",
		"/etc/passwd": "private_dirs: /etc/passwd is no directory",
		t.TempDir():   "has the node's store of containers in it",
	} {
		s := Spec{Dirs: []string{dir}, State: filepath.Join(dir, "jobs/1")}
		assert.ErrorContains(t, s.check(), why)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
