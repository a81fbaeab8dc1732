package reconfig

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/kit/confset"
	"github.com/slurmlet/slurmlet/slurmconf"
	"github.com/slurmlet/slurmlet/slurmconf/hostlist"
)

// furnish lays out the files of a dry run, and gives them to slurmctld's user last.
func (d *dryRun) furnish() error {
	uid, gid := d.Daemon.uid(), d.Daemon.gid()
	err := os.RemoveAll(d.dir)
	for _, dir := range []string{d.dir, d.state()} {
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot make the files of the dry run: %v", err)
	}
	if _, err = d.stageIn(&confset.Store{Dir: d.dir, Name: "conf", UID: uid, GID: gid}, d.set.Set); err != nil {
		return err
	}
	if d.port, err = freePort(); err != nil {
		return err
	}
	if err := d.takeAccounts(); err != nil {
		return err
	}
	// slurmctld's user owns conf.1 by now, but no other process gets into d.dir yet.
	if err := d.write(filepath.Join(d.conf(), confset.Main), []byte(d.text())); err != nil {
		return err
	}
	if err := errors.Join(os.Chown(d.state(), uid, gid), os.Chown(d.dir, uid, gid)); err != nil {
		return fmt.Errorf("cannot make the files of the dry run: %v", err)
	}
	return nil
}

// conf is where the first set of a store is staged.
func (d *dryRun) conf() string { return filepath.Join(d.dir, "conf.1") }

func (d *dryRun) state() string { return filepath.Join(d.dir, "state") }

// write makes a file that only slurmctld reads, whatever was there.
func (d *dryRun) write(path string, data []byte) error {
	_ = os.Remove(path)
	err := os.WriteFile(path, data, 0o600)
	if err == nil {
		err = os.Chown(path, d.Daemon.uid(), d.Daemon.gid())
	}
	if err != nil {
		return fmt.Errorf("cannot make the files of the dry run: %v", err)
	}
	return nil
}

// accounts are the files of StateSaveLocation in which slurmctld keeps the cluster's
// name and what it knows from slurmdbd. It starts with them when slurmdbd is away, as it always is
// in a dry run.
var accounts = []string{"clustername", "assoc_mgr_state", "last_tres"}

func (d *dryRun) takeAccounts() error {
	from, _ := d.slurmConf().Value("StateSaveLocation")
	for _, name := range accounts {
		data, err := readBelow(from, name)
		switch {
		case err == nil:
			err = d.write(filepath.Join(d.state(), name), data)
		case d.slurmConf().Accounted():
			err = fmt.Errorf("slurmctld has not stored yet what slurmdbd knows: %v", err)
		default:
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readBelow reads a file in a directory that SlurmUser owns. It follows no link out of it.
func readBelow(dir, name string) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s is no file", f.Name()))
	}
	return io.ReadAll(f)
}

// freePort is a port that no process has now. The kernel gives the ports of localPorts to whoever connects or asks for any
// port, and might give this one before slurmctld listens on it. So it is another one, while one is free.
func freePort() (int, error) {
	low, high := localPorts()
	for range 100 {
		port := privileged + rand.N(highest-privileged+1)
		if port >= low && port <= high {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf(":%d", port)); err == nil {
			return port, l.Close()
		}
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return 0, fmt.Errorf("cannot find a free port: %v", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Ports below privileged need a capability (ip-sysctl: ip_unprivileged_port_start), and there is none above highest.
const privileged, highest = 1024, 65_535

// localPorts is the range of ports that the kernel gives; Linux' own one where nothing tells.
func localPorts() (low, high int) {
	low, high = 32_768, 60_999
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &low, &high)
	}
	return low, high
}

// dryRunSetting is a key of slurm.conf(5) that has a value of its own in a dry run,
// whatever the candidate sets.
type dryRunSetting struct {
	key string
	// value is nil, or returns nothing, where Slurm's default will do.
	value func(*dryRun) string
}

var dryRunSettings = []dryRunSetting{
	// It knows of no other slurmctld, and listens where no client looks for one.
	{"SlurmctldHost", (*dryRun).host},
	{"SlurmctldPort", func(d *dryRun) string { return strconv.Itoa(d.port) }},
	{"SlurmctldAddr", nil},
	{"ControlMachine", nil},
	{"ControlAddr", nil},
	{"BackupController", nil},
	{"BackupAddr", nil},
	// What it writes is its own.
	{"StateSaveLocation", (*dryRun).state},
	{"SlurmctldPidFile", func(d *dryRun) string { return filepath.Join(d.dir, "pid") }},
	{"AuthInfo", (*dryRun).authInfo},
	// It logs to the agent, in a form that the agent reads.
	{"SlurmctldDebug", says("info")},
	{"SlurmctldSyslogDebug", says("quiet")},
	{"SlurmctldLogFile", nil},
	{"SlurmSchedLogFile", nil},
	{"SlurmSchedLogLevel", nil},
	{"LogTimeFormat", nil},
	{"DebugFlags", nil},
	// It runs no program. Plugins may insist on the first two; slurmctld complains without the third.
	{"SuspendProgram", idle("SuspendProgram")},
	{"ResumeProgram", idle("ResumeProgram")},
	{"MailProg", says(idleProgram)},
	{"ResumeFailProgram", nil},
	{"SlurmctldPrimaryOnProg", nil},
	{"SlurmctldPrimaryOffProg", nil},
	// These plugins run programs or speak to others as they begin.
	{"BurstBufferType", nil},
	{"JobCompType", nil},
	{"SwitchType", nil},
}

func says(value string) func(*dryRun) string { return func(*dryRun) string { return value } }

const idleProgram = "/bin/true"

// idle replaces a program that is set with one that does nothing.
func idle(key string) func(*dryRun) string {
	return func(d *dryRun) string {
		if _, set := d.slurmConf().Get(key); set {
			return idleProgram
		}
		return ""
	}
}

// host is this host alone: slurmctld must find itself among its hosts.
func (d *dryRun) host() string {
	all := d.slurmConf().Controllers()
	if len(all) == 0 {
		return ""
	}
	long, _ := os.Hostname()
	short, _, _ := strings.Cut(long, ".")
	here := slices.IndexFunc(all, func(c slurmconf.Controller) bool { return c.Host == long || c.Host == short })
	return all[max(here, 0)].Host + "(127.0.0.1)"
}

// authInfo keeps auth/slurm from the socket at which the running slurmctld vouches for
// users.
func (d *dryRun) authInfo() string {
	info, _ := d.slurmConf().Value("AuthInfo")
	if kind, _ := d.slurmConf().Value("AuthType"); kind != "auth/slurm" {
		return info
	}
	return strings.TrimPrefix(info+",disable_sack", ",")
}

func (d *dryRun) slurmConf() *slurmconf.Conf { return d.set.conf.Conf(slurmconf.SlurmConf) }

// text is the candidate's slurm.conf in one file, Includes and all, with the settings of a
// dry run.
func (d *dryRun) text() string {
	var b strings.Builder
	for l := range d.slurmConf().Lines() {
		switch key := l.Pairs[0].Key; {
		case slices.ContainsFunc(dryRunSettings, func(s dryRunSetting) bool { return strings.EqualFold(s.key, key) }):
		case strings.EqualFold(key, "NodeName"):
			b.WriteString(ended(unreached(l)))
		default:
			b.WriteString(ended(l.Text()))
		}
	}
	for _, s := range dryRunSettings {
		if s.value == nil {
			continue
		}
		if value := s.value(d); value != "" {
			b.WriteString(written(slurmconf.Setting{Key: s.key, Value: value}))
		}
	}
	return b.String()
}

// ended ends a line, also where a file ends in a backslash, which would continue it.
func ended(line string) string {
	if strings.HasSuffix(line, "\n") {
		return line
	}
	return line + "\n\n"
}

// unreached gives the nodes of a line an address that needs no DNS, for which slurmctld
// would ask them one after the other, ten times each. A wrong number of addresses stays,
// for slurmctld to see.
func unreached(l *slurmconf.Line) string {
	const address = "NodeAddr"
	names := l.Pairs[0].Value
	if given, set := l.Get(address); strings.EqualFold(names, "DEFAULT") || set && count(given.Value) > 1 && count(given.Value) != count(names) {
		return l.Text()
	}
	var settings []slurmconf.Setting
	for _, p := range l.Pairs {
		if !strings.EqualFold(p.Key, address) {
			settings = append(settings, slurmconf.Setting{Key: p.Key, Value: p.Value})
		}
	}
	return written(append(settings, slurmconf.Setting{Key: address, Value: "127.0.0.1"})...)
}

func count(hosts string) int {
	list, _ := hostlist.Parse(hosts) // the check has reported what is wrong
	return list.Len()
}

// written is a line with settings. They were read from a line, so Slurm's grammar can write them.
func written(settings ...slurmconf.Setting) string {
	file, _ := slurmconf.Parse(string(slurmconf.SlurmConf), "")
	_ = file.Append("", settings...)
	return file.String()
}

// dryRun is a slurmctld that is started with a candidate, to see whether it comes up,
// and is killed then. It disturbs no other process: it has files and a state of its own, it can
// connect to nothing, and its configuration names no programs (dryrun_conf.go).
type dryRun struct {
	*Reloader
	set candidate
	// dir holds all that is its own, and is removed with it.
	dir  string
	port int
	said lastWords
}
