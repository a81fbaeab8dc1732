package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// slurmDir has the node's Slurm in a container whose image has none: bin, with a link for each of Slurm's commands,
// which leads to this program; programs, lib and Slurm's plugins, which are the node's; and what this program is to
// know of them. The image's C library takes no part: the node's own dynamic linker loads the node's libraries.
const slurmDir = "/.slurmlet"

// commands names those of Slurm's for users.
var commands = []string{
	"sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "scrontab", "sdiag", "sinfo", "sprio", "squeue",
	"sreport", "srun", "sshare", "sstat", "strigger",
}

// installed says where the node's Slurm is.
type installed struct {
	// Programs is the directory of the commands, Linker the dynamic linker's path, Libraries its directory, and Plugins
	// that of Slurm's plugins and its own library.
	Programs, Linker, Libraries, Plugins string
	// Dir is the job's working directory on the node.
	Dir string
}

// slurmFile is where slurmDir keeps what is installed.
const slurmFile = "/slurm"

// encode has NUL after each field: a path may have all else.
func (i installed) encode() []byte {
	return []byte(strings.Join([]string{i.Programs, i.Linker, i.Libraries, i.Plugins, i.Dir}, "\x00"))
}

func decodeInstalled(text []byte) (installed, error) {
	f := strings.Split(string(text), "\x00")
	if len(f) != 5 {
		return installed{}, fmt.Errorf("%s%s has %d fields: want 5", slurmDir, slurmFile, len(f))
	}
	return installed{f[0], f[1], f[2], f[3], f[4]}, nil
}

// findSlurm finds the node's Slurm; false: it is not where it can be taken from.
func findSlurm() (installed, bool) {
	for _, dir := range []string{"/usr/bin", "/usr/local/bin"} {
		linker, plugins, err := loading(filepath.Join(dir, "srun"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && linker != "" {
			linker, err = filepath.EvalSymlinks(linker)
		}
		found := installed{Programs: dir, Linker: linker, Libraries: filepath.Dir(linker), Plugins: plugins}
		return found, err == nil && linker != "" && filepath.IsAbs(plugins)
	}
	return installed{}, false
}

// addSlurm gives the container the node's Slurm.
func (s *Spec) addSlurm(in inside) error {
	if s.NoSlurm {
		return nil
	}
	slurm, is := findSlurm()
	err := errors.New("the node has no srun in /usr/bin, or one that was built in another way")
	switch {
	case is && in.has(filepath.Join(slurm.Programs, "srun")):
		return nil
	case is && in.has(slurm.Plugins):
		err = fmt.Errorf("the image has a Slurm of its own in %s", slurm.Plugins)
	case is:
		if err = s.mountSlurm(in, slurm); err != nil {
			_ = s.unmount(in, options.Mount{Target: slurmDir}) // it may not be there
		}
	}
	s.hasSlurm = err == nil
	if err != nil && s.WantSlurm {
		return fmt.Errorf("--container-slurm: %w", err)
	}
	return nil // a container that cannot have it does without
}

func (s Spec) mountSlurm(in inside, slurm installed) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// it is made beside the container, and bound into it when it is whole
	own := filepath.Join(s.mountpoint(), "slurm")
	for _, dir := range []string{own, own + "/bin", own + "/programs", own + "/lib"} {
		if err := unix.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	slurm.Dir = s.Dir
	err = os.WriteFile(own+slurmFile, slurm.encode(), 0o644)
	if err == nil {
		err = os.WriteFile(own+"/run", nil, 0o755)
	}
	if err == nil {
		err = linkCommands(slurm.Programs, own+"/bin")
	}
	for place, from := range map[string]string{"/run": self, "/programs": slurm.Programs, "/lib": slurm.Libraries} {
		if err == nil {
			err = unix.Mount(from, own+place, "", unix.MS_BIND|unix.MS_REC, "")
		}
	}
	if err != nil {
		return err
	}
	for _, m := range []options.Mount{
		{Source: slurm.Plugins, Target: slurm.Plugins, Create: "dir"}, // Slurm's configuration names it
		{Source: own, Target: slurmDir, Create: "dir"},
		{Source: "/opt/slurmlet", NoFail: true}, // plugstack.conf of the chart names the plugin there
		{Source: "/run/slurm", NoFail: true},
		{Source: "/run/munge", NoFail: true},
		{Source: configuration(), NoFail: true},
	} {
		if m.Source == "" {
			continue
		}
		if m.Target == "" {
			m.Target, m.Create = m.Source, "dir"
		}
		m.Set = unix.MOUNT_ATTR_RDONLY
		if err := s.mount(in, m); err != nil {
			return err
		}
	}
	return nil
}

// linkCommands makes a link to the program for each command of Slurm's that a directory has.
func linkCommands(programs, links string) error {
	from, err := unix.Open(programs, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, err := unix.Open(links, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	for _, name := range commands {
		if err == nil && unix.Faccessat(from, name, unix.F_OK, 0) == nil {
			err = unix.Symlinkat("../run", to, name)
		}
	}
	return err
}

// configuration is the directory with the configuration of the step's node, empty where the step is not told of one.
func configuration() string {
	path, err := filepath.EvalSymlinks(os.Getenv("SLURM_CONF"))
	if err != nil {
		path, err = filepath.EvalSymlinks("/run/slurm/conf/slurm.conf")
	}
	if err != nil {
		return ""
	}
	return filepath.Dir(path)
}

// slurmUser finds whose slurmctld is in slurm.conf(5), empty where it does not say.
func slurmUser(conf string) string {
	for line := range strings.Lines(conf) {
		name, value, _ := strings.Cut(line, "=")
		if strings.EqualFold(strings.TrimSpace(name), "SlurmUser") {
			value = strings.TrimLeft(value, " \t")
			if end := strings.IndexAny(value, " \t\r\n#()"); end >= 0 {
				value = value[:end]
			}
			return value
		}
	}
	return ""
}

// daemonLine is the line of SlurmUser's in the node's /etc/passwd, empty where a text has that name: Slurm's commands
// read no configuration whose SlurmUser they do not know.
func daemonLine(text string) string {
	conf, err := os.ReadFile(filepath.Join(configuration(), "slurm.conf"))
	user := slurmUser(string(conf))
	if err != nil || user == "" {
		return ""
	}
	line := func(text string) string {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, user+":") {
				return strings.TrimRight(line, "\n") + "\n"
			}
		}
		return ""
	}
	node, err := os.ReadFile("/etc/passwd")
	if err != nil || line(text) != "" {
		return ""
	}
	return line(string(node))
}

// withSlurm adds Slurm's commands to the end of the tasks' PATH.
func (s Spec) withSlurm(environment []string) []string {
	path := os.Getenv("PATH")
	at := slices.IndexFunc(environment, func(entry string) bool { return strings.HasPrefix(entry, "PATH=") })
	if at >= 0 {
		path = strings.TrimPrefix(environment[at], "PATH=")
		environment = slices.Delete(environment, at, at+1)
	}
	if path == "" {
		path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return append(environment, "PATH="+path+":"+slurmDir+"/bin")
}

// IsSlurm says whether this program has been called by the name of a command of Slurm's.
func IsSlurm(name string) bool { return slices.Contains(commands, filepath.Base(name)) }

// RunSlurm becomes a command of the node's Slurm, in a container. It returns the status of one that it has to wait for.
func RunSlurm(args []string) (int, error) {
	name := filepath.Base(args[0])
	text, err := os.ReadFile(slurmDir + slurmFile)
	var slurm installed
	if err == nil {
		slurm, err = decodeInstalled(text)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot run %s: %w", name, err)
	}
	linker := filepath.Join(slurmDir, "lib", filepath.Base(slurm.Linker))
	words := []string{
		linker, "--library-path", slurmDir + "/lib:" + slurm.Plugins, "--argv0", name, filepath.Join(slurmDir, "programs", name),
	}
	if name == "srun" && slurm.Dir != "" && isContainersOwn(".") {
		words = append(words, "--chdir="+slurm.Dir) // one that the user gives is the last one
	}
	words = append(words, args[1:]...)
	environment := ownContainer(args[1:], os.Environ())
	uid, gid, is := outside()
	if !is {
		return 0, fmt.Errorf("cannot run %s: %w", name, unix.Exec(linker, words, environment))
	}
	return runAs(words, environment, uid, gid)
}

// isContainersOwn says whether a path is of the container's own files, so that the node has no such path.
func isContainersOwn(path string) bool {
	var st, root unix.Stat_t
	return unix.Stat(path, &st) == nil && unix.Stat("/", &root) == nil && st.Dev == root.Dev
}

// inherited begins the variables by which Slurm gives the options of a job to the steps that are started in it.
const inherited = "SLURM_SPANK__SLURM_SPANK_OPTION_slurmlet_"

// ownContainer changes what a command inherits of the job's container. One that names a container has nothing of it:
// Slurm would give both. Any other one joins a container with a name, whatever its mode is, and does not save it: that
// is the job's.
func ownContainer(args, environment []string) []string {
	named := func(arg string) bool {
		return strings.HasPrefix(arg, "--container-image") || strings.HasPrefix(arg, "--container-name")
	}
	gone := inherited
	if !slices.ContainsFunc(args, named) {
		gone += "container_save="
	}
	environment = slices.DeleteFunc(environment, func(entry string) bool { return strings.HasPrefix(entry, gone) })
	for i, entry := range environment {
		if strings.HasPrefix(entry, inherited+"container_name=") {
			environment[i], _, _ = strings.Cut(entry, ":")
		}
	}
	return environment
}

// outside returns the user's own numbers where the container calls that user root: slurmctld would take a request of
// root's for somebody else's.
func outside() (uid, gid int, is bool) {
	number := func(file string) int {
		text, err := os.ReadFile("/proc/self/" + file)
		var inside, outside, n int
		if _, failed := fmt.Sscan(string(text), &inside, &outside, &n); err != nil || failed != nil || inside != 0 || n != 1 {
			return 0
		}
		return outside
	}
	uid, gid = number("uid_map"), number("gid_map")
	return uid, gid, uid != 0 && os.Getuid() == 0
}

// runAs runs a command in a namespace in which the user has the numbers that the node knows.
func runAs(words, environment []string, uid, gid int) (int, error) {
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = environment
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: 0, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: 0, Size: 1}},
		Pdeathsig:   unix.SIGKILL,
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM)
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("cannot run %s: %w", words[0], err)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	if exit, is := errors.AsType[*exec.ExitError](err); is && exit.ExitCode() >= 0 {
		return exit.ExitCode(), nil
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", words[0], err)
	}
	return 0, nil
}
