package slurmdbd

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
)

// NoDump is the value of DumpDir with which the agent makes no dump.
const NoDump = "off"

// unfinished ends the name of a dump that is being made.
const unfinished = ".new"

// DumpStatus is what becomes of the dump that the agent makes before slurmdbd converts the database.
type DumpStatus struct {
	// File is where the dump is, or will be when it is complete. Bytes is its size so far, compressed.
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
	// Rows are written already, and About is how many the database estimates that it has.
	Rows     int64     `json:"rows"`
	About    int64     `json:"about"`
	Since    time.Time `json:"since"`
	Complete bool      `json:"complete"`
}

// String is for people.
func (s DumpStatus) String() string {
	if s.Complete {
		return fmt.Sprintf("%s, %s, %d rows", s.File, sizeOf(s.Bytes), s.Rows)
	}
	return fmt.Sprintf("under way since %s: %s so far, %d of about %d rows", s.Since.Format(time.RFC3339), sizeOf(s.Bytes), s.Rows, s.About)
}

func sizeOf(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }

// dumper makes the dump of a database that is to be converted. It may take hours, so the agent asks again and again whether it
// is complete.
type dumper struct {
	lock sync.Mutex
	// of names the database that was dumped, or is being dumped.
	of            string
	running, made bool
	failure       error
	// failures are those in a row, of which last is the last one. After it the next dump waits until then.
	failures int
	last     error
	then     time.Time
	status   *DumpStatus
	// bytes and rows are those so far.
	bytes, rows atomic.Int64
}

// errDumping is no trouble: slurmdbd starts when the dump is complete.
var errDumping = errors.New("slurmdbd starts when the dump of its database is complete")

// Dump is nil where this agent has made none. It is safe for a nil Database.
func (d *Database) Dump() *DumpStatus {
	if d == nil {
		return nil
	}
	d.dumper.lock.Lock()
	defer d.dumper.lock.Unlock()
	if d.dumper.status == nil {
		return nil
	}
	s := *d.dumper.status
	if !s.Complete {
		s.Bytes, s.Rows = d.dumper.bytes.Load(), d.dumper.rows.Load()
	}
	return &s
}

// keep returns nil when there is a complete dump of the database, which slurmdbd of line will convert. Until then it
// returns errDumping, or why there can be none.
func (d *Database) keep(now dbd, line string) error {
	switch d.DumpDir {
	case NoDump:
		return nil
	case "":
		return &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf(
			"cannot keep a dump of the database %s before Slurm %s converts it: set SLURMLET_DUMP_DIR to a directory on a "+
				"volume, or to off if you have made a dump (docs/run/upgrade.md)", now.loc, line)}
	}
	p := &d.dumper
	p.lock.Lock()
	defer p.lock.Unlock()
	of := now.storage.Addr + "/" + now.loc
	if p.of != of {
		p.made = false
	}
	switch {
	case p.running:
		return errDumping
	case p.made:
		return nil
	case p.failure != nil:
		err := p.failure
		p.failure = nil
		return err
	case time.Now().Before(p.then):
		return fmt.Errorf("the dump of the database is tried again at %s: %w", p.then.UTC().Format(time.RFC3339), p.last)
	}
	p.of, p.running = of, true
	p.bytes.Store(0)
	p.rows.Store(0)
	name := fmt.Sprintf("%s-before-%s-%s.sql.gz", now.loc, line, time.Now().UTC().Format("20060102T150405Z"))
	p.status = &DumpStatus{File: filepath.Join(d.DumpDir, name), Since: time.Now()}
	go d.make(now, line, *p.status)
	return errDumping
}

// make makes the dump, and notes what has become of it.
func (d *Database) make(now dbd, line string, s DumpStatus) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-d.Done:
			cancel()
		case <-ctx.Done():
		}
	}()
	d.Log(slog.LevelWarn, "the database is dumped before slurmdbd converts it", slog.String("to", s.File))
	file, err := d.write(now.loc, s.File, func(to io.Writer) error { return d.dumper.writeSQL(ctx, now, to, line, d.follow) })
	p := &d.dumper
	p.lock.Lock()
	defer p.lock.Unlock()
	p.running = false
	if err != nil {
		p.failures++
		p.then = time.Now().Add(backoff.Grow(time.Second, p.failures-1, 5*time.Minute))
		p.last = d.whyNot(err, now, line)
		p.failure, p.status = p.last, nil
		return
	}
	s.File, s.Bytes, s.Rows, s.About, s.Complete = file, p.bytes.Load(), p.rows.Load(), p.rows.Load(), true
	p.made, p.failures, p.status = true, 0, &s
	d.Log(slog.LevelWarn, "the dump of the database is complete, and slurmdbd may convert it", slog.String("file", file),
		slog.Int64("bytes", s.Bytes), slog.Int64("rows", s.Rows), slog.Duration("took", time.Since(s.Since)))
}

// whyNot says what to do about a dump that failed. What only a person can mend ends the container.
func (d *Database) whyNot(err error, now dbd, line string) error {
	err = fmt.Errorf("cannot dump the database %s before Slurm %s converts it, so slurmdbd is not started: %w", now.loc, line, err)
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		err = fmt.Errorf("%w: the dump has more than %s: make the volume larger (accounting.dumps.size), or move older dumps "+
			"away (docs/run/upgrade.md)", err, sizeOf(d.dumper.bytes.Load()))
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
	default:
		return err // it may have been the network
	}
	return &exitcode.Fault{Code: exitcode.Config, Err: err}
}

// write writes the dump under another name, and gives it its own when it is complete and on the disk. It returns the name
// of an earlier dump that holds the same.
func (d *Database) write(loc, path string, fill func(io.Writer) error) (file string, err error) {
	root, err := os.OpenRoot(d.DumpDir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	earlier, err := earlierDumps(root, loc)
	if err != nil {
		return "", err
	}
	name := filepath.Base(path)
	f, err := root.OpenFile(name+unfinished, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer func() {
		_ = f.Close() // it is on the disk, or is no dump
		if err != nil {
			err = errors.Join(err, root.Remove(name+unfinished))
		}
	}()
	packed := gzip.NewWriter(&counted{f, &d.dumper.bytes})
	if err := fill(packed); err != nil {
		return "", err
	}
	if err := cmp.Or(packed.Close(), f.Sync()); err != nil {
		return "", err
	}
	if len(earlier) > 0 && hasSame(root, earlier[len(earlier)-1], f) {
		return filepath.Join(d.DumpDir, earlier[len(earlier)-1]), root.Remove(name + unfinished)
	}
	if err := root.Rename(name+unfinished, name); err != nil {
		return "", err
	}
	dir, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer dir.Close()
	return path, dir.Sync()
}

// earlierDumps are the names of the database's, the oldest first. It removes those that were never completed.
func earlierDumps(root *os.Root, loc string) (names []string, err error) {
	dir, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	all, err := dir.Readdirnames(-1)
	for _, name := range all {
		switch {
		case !strings.HasPrefix(name, loc+"-before-"):
		case strings.HasSuffix(name, ".sql.gz"):
			names = append(names, name)
		case strings.HasSuffix(name, ".sql.gz"+unfinished):
			err = errors.Join(err, root.Remove(name))
		}
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(timeIn(a), timeIn(b)) })
	return names, err
}

// timeIn is the end of a dump's name: "slurm_acct_db-before-26.05-20261128T073000Z.sql.gz".
func timeIn(name string) string { return name[strings.LastIndex(name, "-")+1:] }

// hasSame says whether an earlier dump has the same bytes: a container that starts again and again fills no volume.
func hasSame(root *os.Root, name string, with *os.File) bool {
	f, err := root.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	if _, err := with.Seek(0, io.SeekStart); err != nil {
		return false
	}
	a, b := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, err := io.ReadFull(f, a)
		m, other := io.ReadFull(with, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false
		}
		if err != nil || other != nil {
			return atEnd(err) && atEnd(other)
		}
	}
}

func atEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// follow logs how far the dump is.
func (d *Database) follow() {
	d.Log(slog.LevelInfo, "the database is being dumped", slog.String("dump", d.Dump().String()))
}

// counted counts the bytes that were written.
type counted struct {
	to io.Writer
	n  *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n.Add(int64(n))
	return n, err
}
