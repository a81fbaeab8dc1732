package userfiles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/tempdirs"
)

// Leftovers is SLURMLET_LEFTOVERS: what becomes of files in shared directories whose users have no job here.
type Leftovers string

// What becomes of them.
const (
	LeftoversKeep   Leftovers = "keep"
	LeftoversRemove Leftovers = "remove"
)

// ParseLeftovers reads it.
func ParseLeftovers(text string) (Leftovers, error) {
	switch l := Leftovers(text); l {
	case LeftoversKeep, LeftoversRemove:
		return l, nil
	}
	return "", errors.New("want keep or remove")
}

// leftAgain is how soon the agent looks again at a user whose job slurmctld still knows here.
const leftAgain = 5 * time.Second

// removeLeft removes what users have left whose jobs were here and are over. Whose job was not seen here keeps the
// files, as does everybody while slurmctld does not answer. It returns whether to look again soon.
func (f *Files) removeLeft(ctx context.Context, ended []string, since time.Time) (again bool) {
	f.meet(ctx, ended)
	for _, id := range ended {
		if job, known := f.jobs[id]; known && !slices.Contains(f.owners[job.UID], id) {
			f.owners[job.UID] = append(f.owners[job.UID], id)
		}
	}
	for uid, ids := range f.owners {
		if uid == 0 || usersOf(f.Root)[uid] {
			continue
		}
		over, err := f.jobsOver(ctx, ids)
		if err != nil || !over {
			again = true
			continue
		}
		delete(f.owners, uid)
		f.removeOf(ctx, uid, since)
	}
	return again
}

// jobsOver says whether none of the jobs has anything here any more, by slurmctld's word.
func (f *Files) jobsOver(ctx context.Context, ids []string) (bool, error) {
	for _, id := range ids {
		question, cancel := context.WithTimeout(ctx, f.Slurm.Limit())
		job, err := f.Slurm.Job(question, id)
		cancel()
		if err != nil || job != nil && (job.Running() || job.Completing()) {
			return false, err
		}
	}
	return true, nil
}

func (f *Files) removeOf(ctx context.Context, uid int, since time.Time) {
	var sum tempdirs.Removed
	for _, dir := range f.shared {
		done, err := tempdirs.Remove(ctx, f.Root, dir, uid, since)
		sum.Files, sum.Bytes = sum.Files+done.Files, sum.Bytes+done.Bytes
		if err != nil {
			break
		}
	}
	if sum.Files == 0 {
		return
	}
	f.mu.Lock()
	f.removed += sum.Bytes
	f.mu.Unlock()
	f.Log(slog.LevelInfo,
		fmt.Sprintf("removed %d files (%d MiB) of %s, who has no job here any more", sum.Files, sum.Bytes/mib, f.name(uid)))
	f.look() // the next look reports what is left
}
