package rootfs

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imagecache"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/save"
)

// MakeHere is the argument with which the plugin starts a holder in new namespaces.
const MakeHere = "make"

// answerOutside is the answer of a holder that cannot make the container in namespaces that it has found itself in: the plugin
// runs enter then.
const answerOutside = "OUTSIDE\x00"

// errOutside says that what is to be done needs the node's own namespaces: a registry is asked, or a container with a
// name looked for.
var errOutside = errors.New("it is made from outside of the container")

// Make is the holder of a container whose namespaces of users and mounts the plugin has made, with nobody mapped yet. It
// saves the start of a program. What it cannot do there, it leaves to Enter. It must be called on the main thread.
func Make(s Spec) error {
	for fd := replyFD; fd <= lifelineFD; fd++ {
		unix.CloseOnExec(fd)
	}
	reply, lifeline := os.NewFile(replyFD, "reply"), os.NewFile(lifelineFD, "lifeline")
	err := s.findInside()
	if errors.Is(err, errOutside) {
		_, err = reply.WriteString(answerOutside)
		return err
	}
	if err != nil {
		return err
	}
	if err := s.unshare(); err != nil {
		return err
	}
	return s.runHolder(reply, lifeline)
}

func (s *Spec) findInside() error {
	if s.Name != "" || s.mapUsers() != nil { // Enter says what forbids it
		return errOutside
	}
	if s.Save != "" {
		if err := save.Check(s.Save); err != nil {
			return err
		}
	}
	if options.IsPath(s.Image) {
		return s.findPath(s.Image)
	}
	return s.findPulled(s.Image, func(imagecache.Cache, string, string) (string, *os.File, error) { return "", nil, errOutside })
}

// mapUsers makes the job's user one that the namespace knows.
func (s Spec) mapUsers() error {
	uid, gid := s.UID, s.GID
	if s.RemapRoot {
		uid, gid = 0, 0
	}
	for _, f := range []struct{ name, text string }{
		{"setgroups", "deny"}, {"uid_map", fmt.Sprintf("%d %d 1", uid, s.UID)}, {"gid_map", fmt.Sprintf("%d %d 1", gid, s.GID)},
	} {
		fd, err := unix.Open("/proc/self/"+f.name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = unix.Write(fd, []byte(f.text))
		if err = errors.Join(err, unix.Close(fd)); err != nil {
			return err
		}
	}
	return s.lowerCapabilities()
}

// capabilities are those that the programs have which a holder starts, where they are not root in the container: execve(2)
// takes all but ambient ones from a user who is not.
func (s Spec) capabilities() []uintptr {
	all := []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER}
	if slices.Contains(s.Unshare, "net") {
		all = append(all, unix.CAP_NET_ADMIN) // its loopback is down
	}
	return all
}

// lowerCapabilities has the programs that this thread starts inherit just those. The container's root keeps all: the
// kernel forgets whose death ends a program that gains some.
func (s Spec) lowerCapabilities() error {
	if s.RemapRoot {
		return nil
	}
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	for _, capability := range s.capabilities() {
		err = errors.Join(err, unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, capability, 0, 0))
	}
	return err
}

// unshare makes the other namespaces that the container is to have of its own, for this thread, which names the process'.
func (s Spec) unshare() error {
	flags := 0
	for kind, flag := range map[string]int{"net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS} {
		if slices.Contains(s.Unshare, kind) {
			flags |= flag
		}
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Unshare(flags); err != nil {
		return explain("cannot make namespaces for the container", err)
	}
	return nil
}
