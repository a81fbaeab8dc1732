package people

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slurmlet/slurmlet/internal/pod/watch"
)

// Holder is somebody who has something here. Name is empty where nobody knows it.
type Holder struct {
	Name string
	UID  int
}

// Options are a Keeper's surroundings.
type Options struct {
	// Root is where the machine's file system begins.
	Root string
	// Record is the file that keeps the record when the container ends, empty where nothing outlives the container.
	Record string
	// Present returns those who have something here. It is not ok as long as nobody can say.
	Present func(context.Context) (all []Holder, ok bool)
	// End has what somebody has here end. It is called again until Present has the person no longer.
	End func(context.Context, Person) error
	// Polls says that somebody new is only found by another look.
	Polls bool
	Done  <-chan struct{}
	Log   func(level slog.Level, text string, attrs ...slog.Attr)
}

// Keeper ends what people have here who have left.
type Keeper struct {
	Options
	// record is nil until it is read, and written is the text that its file has.
	record    Record
	written   []byte
	directory directory
	// life is that of the sssd that has answered last.
	life string
	// ended says since when those have left who have been ended.
	ended  map[string]time.Time
	wake   chan struct{}
	status atomic.Pointer[Status]
}

// Status tells what has become of leavers.
type Status struct {
	// Waiting are those whose end waits for a confirmation.
	Waiting []Waiting `json:"waiting,omitempty"`
	// Ended counts those whose sessions or jobs were ended since the container's start.
	Ended int `json:"ended"`
	// Asked says when the directory was asked last, zero without one, and Unanswered counts the people for whom it gave no answer.
	Asked      time.Time `json:"asked,omitzero"`
	Unanswered int       `json:"unanswered,omitempty"`
	// Why says why the list of users is not read, or why somebody who has left goes on.
	Why string `json:"why,omitempty"`
}

// Rows writes the status for people.
func (s *Status) Rows(row func(name, format string, args ...any)) {
	if len(s.Waiting) > 0 {
		row("Leavers", "wait for a confirmation (usersRemoved): %s", s.describe())
	}
	if s.Why != "" {
		row("Leavers", "%s", s.Why)
	}
	if s.Unanswered > 0 {
		row("Leavers", "sssd gives no answer for %d people, who go on; it was asked %s", s.Unanswered, s.Asked.Format(time.RFC3339))
	}
}

func (s *Status) describe() string {
	var all []string
	for _, w := range s.Waiting {
		all = append(all, w.Name+" ("+w.Why+")")
	}
	return strings.Join(all, ", ")
}

// New makes a Keeper, nil where neither a list nor a directory is possible.
func New(o Options) *Keeper {
	k := &Keeper{Options: o, wake: make(chan struct{}, 1), ended: map[string]time.Time{}}
	if len(k.watched()) == 0 {
		return nil
	}
	k.directory.socket = filepath.Join(o.Root, pipes, "pam")
	k.status.Store(&Status{})
	return k
}

// Status returns the present one, nil where there is nothing to say.
func (k *Keeper) Status() *Status {
	if k == nil {
		return nil
	}
	return k.status.Load()
}

// Wake has the Keeper look: somebody may be here who was not.
func (k *Keeper) Wake() {
	if k == nil {
		return
	}
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

func (k *Keeper) watched() (dirs []string) {
	for _, dir := range []string{listDir, pipes} {
		if info, err := os.Stat(filepath.Join(k.Root, dir)); err == nil && info.IsDir() {
			dirs = append(dirs, filepath.Join(k.Root, dir))
		}
	}
	return dirs
}

const (
	// calm is how long the files must be left alone, and the least time between two looks.
	calm = 200 * time.Millisecond
	// interval is the time between two questions to the directory, and soon that between two looks at who still has
	// something here.
	interval, soon = 15 * time.Second, 5 * time.Second
	// mostWitnesses is how many others are asked for whether the directory refuses everybody.
	mostWitnesses = 5
)

// Run looks at each change of the list, and from time to time where there is a directory, until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	if k == nil {
		return
	}
	files := watch.New(watch.Options{Done: k.Done, Calm: watch.For(calm), Changed: k.Wake})
	for _, dir := range k.watched() {
		if err := files.Add(dir); err != nil {
			files.Tick(watch.Every)
		}
	}
	go files.Run()
	defer k.directory.close()
	for {
		var due <-chan time.Time
		if pause := k.round(ctx); pause > 0 {
			due = time.After(pause)
		}
		wait(ctx, calm)
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
		case <-due:
		}
	}
}

// round looks once, and returns after which time it is to look again, 0 for when it is woken.
func (k *Keeper) round(ctx context.Context) time.Duration {
	if err := k.readRecord(); err != nil { // nobody knows who was here
		k.say(Verdict{}, Facts{}, 0, err)
		return 0
	}
	f, fault := k.look()
	now := life(k.Root)
	if f.SameDirectory = now == k.life; !f.SameDirectory {
		k.directory.close()
	}
	if now != "" || k.record.misses(f) {
		holders, ok := k.Present(ctx)
		if !ok {
			return interval
		}
		f.Present = k.record.names(holders)
	}
	k.life = now
	if now != "" {
		f.Answers = k.inquire(ctx, f)
	}
	f.Now = time.Now()
	v := k.record.Judge(f)
	fault = errors.Join(fault, k.writeRecord())
	ended, err := k.end(ctx, v.Leavers)
	k.say(v, f, ended, errors.Join(fault, err))
	switch {
	case len(v.Leavers) > 0:
		return soon
	case k.record.doubted():
		return sure
	case now != "" && (k.Polls || len(f.Answers) > 0):
		return interval
	case len(v.Waiting) > 0:
		return watch.Every
	}
	return 0
}

// look reads the files.
func (k *Keeper) look() (f Facts, err error) {
	if f.Locals, err = readPasswd(filepath.Join(k.Root, "etc/passwd")); err != nil {
		return f, err
	}
	f.List, f.HasList, err = readList(k.Root)
	f.Confirmed = readConfirmed(k.Root)
	return f, err
}

// inquire asks the directory for those who have something here or were here, and are in no list. Where it refuses all of
// them, it is asked for others who were here.
func (k *Keeper) inquire(ctx context.Context, f Facts) map[string]Answer {
	answers := map[string]Answer{}
	failures := 0
	ask := func(name string) (a Answer) {
		if a = Unsure; failures < 2 && ctx.Err() == nil { // it is not there, or takes its time for each
			if a = k.directory.ask(ctx, name); a == Unsure {
				failures++
			}
		}
		answers[name] = a
		return a
	}
	here, refused := false, false
	for _, name := range k.record.asked(f) {
		a := ask(name)
		here, refused = here || a == Here, refused || a == Locked || a == Gone
		wait(ctx, pace)
	}
	if refused && !here {
		for _, name := range k.record.witnesses(answers) {
			if ask(name) == Here {
				break
			}
		}
	}
	return answers
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// end has what leavers have here end, but of those who are in the list again.
func (k *Keeper) end(ctx context.Context, leavers []Person) (ended int, err error) {
	for _, p := range leavers {
		if list, _, err := readList(k.Root); err == nil {
			if _, back := list[p.Name]; back {
				continue
			}
		}
		if failed := k.End(ctx, p); failed != nil {
			err = fmt.Errorf("cannot end what %s has here, who has left: %w", p.Name, failed)
		} else if k.ended[p.Name] != p.Left {
			k.Log(slog.LevelWarn, "somebody has left, and what this person had here was ended", slog.String("user", p.Name),
				slog.Int("uid", p.UID))
			k.ended[p.Name] = p.Left
			ended++
		}
	}
	return ended, err
}

// say publishes what has come of a round, and logs what is new.
func (k *Keeper) say(v Verdict, f Facts, ended int, fault error) {
	old := k.status.Load()
	s := Status{Waiting: v.Waiting, Ended: old.Ended + ended}
	if len(f.Answers) > 0 {
		s.Asked = f.Now
	}
	for _, a := range f.Answers {
		if a == Unsure {
			s.Unanswered++
		}
	}
	if fault != nil {
		s.Why = fault.Error()
	}
	if s.Why != old.Why && s.Why != "" {
		k.Log(slog.LevelError, "leavers: "+s.Why)
	}
	if now := s.describe(); now != old.describe() && now != "" {
		k.Log(slog.LevelError, "people have left, and what they have here goes on until somebody confirms it (usersRemoved)",
			slog.String("users", now))
	}
	k.status.Store(&s)
}
