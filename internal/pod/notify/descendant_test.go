package notify

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tree is a /proc in which each pid has a parent.
func tree(parents map[int]int) fstest.MapFS {
	proc := fstest.MapFS{}
	for pid, parent := range parents {
		stat := fmt.Sprintf("%d (a) Z (b) S %d %d 0", pid, parent, pid)
		proc[fmt.Sprintf("%d/stat", pid)] = &fstest.MapFile{Data: []byte(stat)}
	}
	return proc
}

func TestDescendant(t *testing.T) {
	proc := tree(map[int]int{1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 30: 0})
	for _, c := range []struct {
		pid, root int
		want      bool
	}{
		{10, 10, true},
		{11, 10, true},
		{12, 10, true},
		{12, 1, true},
		{20, 10, false},
		{10, 11, false},
		{1, 10, false},
		{30, 1, false}, // put into the pod from outside, as "kubectl exec" does
		{99, 10, false},
		{99, 99, true},
		{0, 0, false},
		{-1, -1, false},
	} {
		assert.Equal(t, c.want, descendant(proc, c.pid, c.root), "%+v", c)
	}
}

func TestChildren(t *testing.T) {
	proc := tree(map[int]int{1: 0, 10: 1, 11: 10, 12: 11, 13: 10, 30: 0})
	proc["self/stat"] = &fstest.MapFile{Data: []byte("11 (a) S 10 0")}
	assert.Equal(t, []int{11, 13}, children(proc, 10))
	assert.Empty(t, children(proc, 12))
	assert.Empty(t, children(fstest.MapFS{}, 10))
	assert.Equal(t, map[int]bool{0: true, 1: true, 10: true, 11: true}, parents(proc))
}

// moving is a /proc whose process 11 ends at the first look at it; its child goes to 10.
type moving struct {
	fstest.MapFS
	moved bool
}

func (m *moving) Open(name string) (fs.File, error) {
	if name == "11/stat" && !m.moved {
		m.moved = true
		m.MapFS = tree(map[int]int{1: 0, 10: 1, 12: 10})
	}
	return m.MapFS.Open(name)
}

func TestDescendantOfAProcessThatEndsMeanwhile(t *testing.T) {
	proc := tree(map[int]int{1: 0, 10: 1, 11: 10, 12: 11})
	assert.True(t, descendant(&moving{MapFS: proc}, 12, 10))
}

func TestDescendantInTheRealProc(t *testing.T) {
	child := exec.Command("cat")
	stdin, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	assert.True(t, Descendant(child.Process.Pid, os.Getpid()))
	assert.False(t, Descendant(os.Getpid(), child.Process.Pid))
	require.NoError(t, stdin.Close())
	require.NoError(t, child.Wait())
	assert.False(t, Descendant(child.Process.Pid, os.Getpid()))
}
