package sack

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Environ names the socket to slurmd and sackd that they inherit. Slurm means it for a reconfigure. A slurmd that starts closes
// all files but the first three, so the socket must be the first: standard input.
const Env = "SACK_RECONFIG_FD=0"

// Back is the socket of a daemon behind the door. Users cannot reach it.
type Back struct {
	// Listener is for the daemon's standard input. Whoever has started the daemon closes it.
	Listener *os.File
	name     string
	place    *os.File
}

var numbers atomic.Int64

// NewBack makes a socket for a daemon. The file has a name in a directory of the daemon's user, because one of 26.05 wants to
// remove it when it ends.
func (d *Door) NewBack() (*Back, error) {
	name := filepath.Join(d.Dir, strconv.FormatInt(numbers.Add(1), 10))
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot make the socket behind %s: %w", d.Path, err)
	}
	listener, err := listen(name)
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket behind %s: %w", d.Path, err)
	}
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return nil, fmt.Errorf("cannot make the socket behind %s: %w", d.Path, err)
	}
	place, err := os.OpenFile(name, unix.O_PATH, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make the socket behind %s: %w", d.Path, err), file.Close())
	}
	return &Back{Listener: file, name: name, place: place}, nil
}

// ProcPath is where the socket is, for every user of this process.
func (b *Back) ProcPath() string { return fmt.Sprintf("/proc/self/fd/%d", b.place.Fd()) }

// Close forgets the socket, whose daemon is over.
func (b *Back) Close() {
	_ = errors.Join(b.Listener.Close(), b.place.Close(), os.Remove(b.name)) // the daemon may have removed it
}

// listen makes a socket that everybody may connect to who reaches its directory.
func listen(path string) (*net.UnixListener, error) {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}
