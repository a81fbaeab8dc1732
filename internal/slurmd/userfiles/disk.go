package userfiles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/lifecycle/supervisor"
	"github.com/slurmlet/slurmlet/internal/pod/tempdirs"
	"github.com/slurmlet/slurmlet/internal/slurm/reasons"
	"github.com/slurmlet/slurmlet/internal/slurmd/drains"
)

const (
	// diskFull is the share of the limit at which the node is drained, and diskFree that at which it takes jobs again,
	// in hundredths. A growth of diskGrowth is put down to a job.
	diskFull   = 80
	diskFree   = 70
	diskGrowth = 5
	// foreignEvery is how often the agent looks whether somebody else's drain has gone while the disk is full.
	foreignEvery = time.Minute
)

// mib is bytes of a MiB.
const mib = 1 << 20

// diskWatch judges what the kubelet counts against the pod's limit.
type diskWatch struct {
	limit int64
	full  bool
	// before is what each user had at the last look, and by are the jobs under which that grew.
	before map[int]int64
	by     map[int]string
	// applied: the drain is as it must be, for the node that has been Ready since then.
	applied time.Time
	was     bool
	again   time.Time
}

// grown are the users whose files have grown much since the last look.
func (d *diskWatch) grown(byUser map[int]int64) (users []int) {
	for uid, bytes := range byUser {
		if uid != 0 && bytes-d.before[uid] >= d.limit*diskGrowth/100 {
			users = append(users, uid)
			d.before[uid] = bytes
		}
	}
	for uid, bytes := range d.before {
		if byUser[uid] < bytes {
			d.before[uid] = byUser[uid]
		}
	}
	slices.Sort(users)
	return users
}

// judge says whether the node must take no jobs. Between both shares it stays as it is.
func (d *diskWatch) judge(used int64) {
	switch {
	case used >= d.limit*diskFull/100:
		d.full = true
	case used < d.limit*diskFree/100:
		d.full = false
	}
}

// reason names who holds most.
func (d *diskWatch) reason(used int64, all []tempdirs.Holding, name func(uid int) string) string {
	text := fmt.Sprintf("%d of %d MiB used", used/mib, d.limit/mib)
	byUser := bytesByUser(all)
	most := -1
	for uid, bytes := range byUser {
		if uid != 0 && (most < 0 || bytes > byUser[most] || bytes == byUser[most] && uid < most) {
			most = uid
		}
	}
	if most < 0 {
		return text
	}
	who := d.by[most]
	if who == "" {
		who = name(most)
	}
	where := slices.MaxFunc(all, func(a, b tempdirs.Holding) int {
		return int(ofUser(a, most) - ofUser(b, most))
	}).Dir.Path
	return fmt.Sprintf("%s, %d MiB by %s in %s", text, byUser[most]/mib, who, where)
}

func ofUser(h tempdirs.Holding, uid int) int64 {
	if h.UID != uid {
		return -1
	}
	return h.Bytes / mib
}

func bytesByUser(all []tempdirs.Holding) map[int]int64 {
	byUser := map[int]int64{}
	for _, h := range all {
		byUser[h.UID] += h.Bytes
	}
	return byUser
}

// followDisk drains the node when its disk is nearly full, and lifts that drain when it is not. It returns whether
// that is done.
func (f *Files) followDisk(ctx context.Context, s *Status, all []tempdirs.Holding, jobs []string) bool {
	d := &f.disk
	byUser := bytesByUser(all)
	for _, bytes := range byUser {
		s.DiskUsed += bytes
	}
	for _, uid := range d.grown(byUser) {
		f.meet(ctx, jobs)
		if who := f.jobsOf(uid, jobs); who != "" {
			d.by[uid] = who
		}
	}
	if s.Fault == "" || s.DiskUsed >= d.limit*diskFull/100 { // what was counted in part only says that there is too much
		d.judge(s.DiskUsed)
	}
	reason := d.reason(s.DiskUsed, all, f.name)
	if d.full {
		s.DiskFull = reason
	}
	state, since := f.State()
	if d.was == d.full && d.applied.Equal(since) && (d.again.IsZero() || time.Now().Before(d.again)) {
		return true
	}
	if state != supervisor.Ready {
		return false
	}
	others, err := f.drainForDisk(ctx, d.full, reason)
	if err != nil {
		f.Log(slog.LevelDebug, "cannot bring the node's drain up to date with its disk", slog.Any("error", err))
		return false
	}
	d.was, d.applied, d.again = d.full, since, time.Time{}
	if others {
		d.again = time.Now().Add(foreignEvery)
	}
	return true
}

// jobsOf names the user's jobs among those that were here while the files grew.
func (f *Files) jobsOf(uid int, ids []string) string {
	var names []string
	user := ""
	for _, id := range ids {
		job, known := f.jobs[id]
		if known && job.UID == uid && !slices.Contains(names, job.JobID()) {
			names, user = append(names, job.JobID()), job.User
		}
	}
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "job " + names[0] + " of " + user
	}
	return "jobs " + strings.Join(names, ", ") + " of " + user
}

// drainForDisk drains the node, or lifts such a drain. others says that somebody else has drained a node that should be.
func (f *Files) drainForDisk(ctx context.Context, full bool, reason string) (others bool, err error) {
	var changed bool
	if full {
		changed, err = f.Drains.Set(ctx, reasons.Disk, reasons.ByDisk+reason)
	} else {
		changed, err = f.Drains.Lift(ctx, reasons.Disk)
	}
	switch {
	case changed && full:
		f.Log(slog.LevelWarn,
			"the pod's disk is nearly full, and the kubelet would evict the pod: the node is drained", slog.String("reason", reason))
	case changed:
		f.Log(slog.LevelInfo, "the pod's disk has room again: the node is resumed")
	}
	if _, foreign := errors.AsType[*drains.ForeignError](err); foreign {
		return full, nil
	}
	return false, err
}
