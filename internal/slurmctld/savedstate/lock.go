package savedstate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// dirName is the agent's directory in StateSaveLocation.
const dirName = "slurmlet"

// shared are file systems that several machines can have mounted at once (statfs(2)). There the lock of a machine that
// is gone may stay for minutes or for ever, so nothing is locked.
var shared = []int64{
	unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
	unix.FUSE_SUPER_MAGIC, unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC,
	0x0BD00BD0, // Lustre
	0x47504653, // GPFS
	0x01161970, // GFS2
	0x19830326, // BeeGFS
}

// errShared: the directory is on a file system of several machines.
var errShared = errors.New("it is on a file system of several machines")

// lock takes the lock, which the kernel releases when the agent has ended. It waits for another agent that has it, of
// which held is called with its agent first. self is what that one would read of this agent.
func lock(ctx context.Context, root *os.Root, self string, held func(by string)) (*os.File, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(root.Name(), &fs); err != nil {
		return nil, err
	}
	if slices.Contains(shared, int64(fs.Type)) { //nolint:unconvert // it has another type on other architectures
		return nil, errShared
	}
	f, err := root.OpenFile(dirName+"/lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	err = flock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		by, _ := io.ReadAll(io.LimitReader(f, 1<<10)) // who it is matters little
		held(strings.ToValidUTF8(strings.TrimSpace(string(by)), ""))
		if err = await(ctx, f); ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	if err == nil {
		err = sign(f, self)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// await waits for the lock. When ctx ends first, the wait goes on until the program ends, and f is closed after it.
func await(ctx context.Context, f *os.File) error {
	var err error
	taken := make(chan struct{})
	go func() {
		err = flock(f, unix.LOCK_EX)
		close(taken)
	}()
	select {
	case <-taken:
		return err
	case <-ctx.Done():
		go func() {
			<-taken
			_ = f.Close()
		}()
		return ctx.Err()
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// sign writes who has the lock.
func sign(f *os.File, self string) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("cannot write who has the lock: %w", err)
	}
	_, err := f.WriteAt([]byte(self+"\n"), 0)
	return err
}
