package login

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/pod/people"
	"github.com/slurmlet/slurmlet/internal/pod/process"
	"github.com/slurmlet/slurmlet/internal/pod/sshd"
)

// newLeavers makes what ends the sessions of those who have left.
func (l *Login) newLeavers() *people.Keeper {
	return people.New(people.Options{Root: l.Root, Present: l.present, End: l.endPerson, Done: l.Done, Log: l.Log})
}

// Leavers is what has become of those who have left, nil where nobody looks.
func (l *Login) Leavers() *people.Status {
	if l == nil {
		return nil
	}
	return l.leaverKeeper.Status()
}

// present are those who are logged in, and those of whom a process is left.
func (l *Login) present(context.Context) (all []people.Holder, ok bool) {
	owners, err := sshd.Owners(l.Root)
	for uid, name := range owners {
		all = append(all, people.Holder{Name: name, UID: uid})
	}
	return all, err == nil
}

// lastWords is how long a leaver's processes have between SIGTERM and SIGKILL, and to end after that.
const lastWords = 3 * time.Second

// endPerson ends all processes of a person's uid. With the last one, sshd ends its part of the session.
func (l *Login) endPerson(ctx context.Context, p people.Person) error {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		pids, err := sshd.ProcessesOf(l.Root, p.UID)
		if err != nil {
			return err
		}
		l.signal(ctx, pids, p.UID, sig)
	}
	return nil
}

// signal signals processes that are still of a uid, and waits for their ends.
func (l *Login) signal(ctx context.Context, pids []int, uid int, sig unix.Signal) {
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	var signalled []*process.Process
	for _, pid := range pids {
		if one, err := l.Table.Adopt(pid); err == nil && sshd.IsOf(l.Root, pid, uid) {
			_ = one.Signal(sig) // it is over
			signalled = append(signalled, one)
		}
	}
	for _, one := range signalled {
		select {
		case <-one.Done():
		case <-ctx.Done():
			return
		}
	}
}
