package services

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/slurmlet/slurmlet/internal/kit/exitcode"
	"github.com/slurmlet/slurmlet/internal/pod/copies"
	"github.com/slurmlet/slurmlet/internal/pod/sshd"
)

// sshdConfig is the file that sshd reads: the agent's own lines, the site's, and then SSHD.Config. sshd takes the first
// value of a keyword, and a Match of an included file ends with that file (sshd_config(5)).
type sshdConfig struct {
	SSHD
	// own are the agent's lines that hold in any case, and directorysKeys those that ask sssd, where nobody else is asked.
	own, directorysKeys []string
	// keys is a directory of authorized keys, empty for none.
	keys string
	// listen is the address at which sshd answers.
	listen atomic.Pointer[string]
}

func (c *sshdConfig) path() string { return filepath.Join(c.RunDir, "sshd_config") }

// siteLines is the agent's copy of SSHD.Lines.
func (c *sshdConfig) siteLines() copies.Dir {
	d := copies.ForAgent(c.Lines, filepath.Join(c.RunDir, "sshd_config.d"), 0o600)
	d.Wanted = func(name string) bool { return strings.HasSuffix(name, ".conf") }
	d.Check = c.check
	return d
}

// check has sshd read a next set of the site's lines, in a directory of its own.
func (c *sshdConfig) check(files map[string][]byte) error {
	dir := filepath.Join(c.RunDir, "sshd_config.d.next")
	defer os.RemoveAll(dir)
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return fmt.Errorf("cannot check sshd's configuration: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return fmt.Errorf("cannot check sshd's configuration: %w", err)
		}
	}
	settings, err := c.read(dir)
	if err != nil {
		return errors.New(quote(strings.ReplaceAll(err.Error(), dir, c.Lines), c.Lines, files))
	}
	switch strings.ToUpper(settings.LogLevel) {
	case "SILENT", "QUIET", "FATAL", "ERROR": // sshd's name of QUIET is SILENT
		return fmt.Errorf("%s: LogLevel is %s, and the agent finds sessions by sshd's log: want INFO, VERBOSE or DEBUG", c.Lines,
			settings.LogLevel)
	}
	return nil
}

// saidLine is how sshd names a line of a file; some of its messages have a second colon.
var saidLine = regexp.MustCompile(`^(\S+?):? line (\d+): `)

// quote adds the line that sshd's message means, which has the value.
func quote(said, dir string, files map[string][]byte) string {
	found := saidLine.FindStringSubmatch(said)
	if found == nil || filepath.Dir(found[1]) != dir {
		return said
	}
	number, err := strconv.Atoi(found[2])
	lines := strings.Split(string(files[filepath.Base(found[1])]), "\n")
	if err != nil || number < 1 || number > len(lines) {
		return said
	}
	return said + ": the line is " + strconv.Quote(strings.TrimSpace(lines[number-1]))
}

// read has sshd read the file with the site's lines as they are in dir, and returns what it makes of them.
func (c *sshdConfig) read(dir string) (sshd.Settings, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setupLimit)
	defer cancel()
	next := c.path() + ".next"
	if _, err := os.Stat(c.Config); err != nil { // sshd includes what is not there without a word
		return sshd.Settings{}, err
	}
	if err := c.put(next, dir, nil); err != nil {
		return sshd.Settings{}, err
	}
	return sshd.Read(ctx, c.Program, next)
}

// put writes a file with the agent's lines, which come first, and includes.
func (c *sshdConfig) put(path, dir string, more []string) error {
	lines := append([]string{"# slurmlet writes this file."}, c.own...)
	lines = append(lines, more...)
	if c.Lines != "" {
		lines = append(lines, "Include "+dir+"/*.conf")
	}
	lines = append(lines, "Include "+c.Config)
	return os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}

// write replaces the file that sshd reads when it starts, and at SIGHUP.
func (c *sshdConfig) write() error {
	dir := filepath.Join(c.RunDir, "sshd_config.d")
	settings, err := c.read(dir)
	if err != nil {
		return &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf("SLURMLET_SSHD_CONFIG: cannot use %s: %w", c.Config, err)}
	}
	var more []string
	if settings.AuthorizedKeysCommand == "" {
		more = append(more, c.directorysKeys...)
	}
	if c.keys != "" {
		more = append(more, "AuthorizedKeysFile "+settings.AuthorizedKeysFile+" "+c.keys+"/%u")
	}
	next := c.path() + ".next"
	if err = c.put(next, dir, more); err == nil {
		err = os.Rename(next, c.path())
	}
	if err != nil {
		return fmt.Errorf("cannot write sshd's configuration: %w", err)
	}
	c.listen.Store(&settings.Listen)
	return nil
}

// open takes the site's lines, if they can be used, and writes the file.
func (c *sshdConfig) open() error {
	if _, err := os.Stat(c.Lines); errors.Is(err, fs.ErrNotExist) {
		c.Lines = ""
	}
	if c.Lines != "" {
		if _, err := c.siteLines().Sync(); err != nil {
			return &exitcode.Fault{Code: exitcode.Config, Err: fmt.Errorf("cannot use the lines for sshd: %w", err)}
		}
	}
	return c.write()
}

// follow has sshd read the site's lines anew when they change. Sessions go on, because SIGHUP is for the sshd that listens.
func (c *sshdConfig) follow(s *Services, one *Service) error {
	if c.Lines == "" {
		return nil
	}
	lines := c.siteLines()
	lines.Check = func(files map[string][]byte) error {
		err := c.check(files)
		one.refuse(err)
		return err
	}
	return lines.Watch(c.Done, func(changed []string, err error) {
		if err == nil {
			err = c.write()
			one.refuse(err)
		}
		if err != nil {
			s.Log(slog.LevelError, "the lines for sshd are refused; the last good ones stay", slog.Any("error", err))
			return
		}
		one.reload()
		s.Log(slog.LevelInfo, "sshd has other lines", slog.Any("files", changed))
	})
}
