package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/options"
)

// NVIDIA's driver has a part in the kernel and libraries of just the same version, so no image has them. The runtime of
// the pod has brought both into the pod: its devices, which are in the container's /dev, and files whose names end with
// the version. Those go on into the container.

// driverDevice is there where the pod has a GPU of NVIDIA's.
const driverDevice = "/dev/nvidiactl"

// driverDir is where a container has the driver's libraries. Every image can have a directory below "/".
const driverDir = "/.nvidia"

// libraryDirs are where a pod has them: of Debian's and of Red Hat's images, and of Google's device plugin.
var libraryDirs = []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64"}

// driverPrograms are those of the driver that people and frameworks run.
var driverPrograms = []string{"nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server"}

// versioned is a library that every driver has; its name tells the driver's version.
var versioned = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^lib(?:cuda|nvidia-ml)\.so\.([0-9]+\.[0-9][0-9.]*)$`)
})

// driverLibraries are the files of the driver in a list of directories.
func driverLibraries(dirs []string) []string {
	var all []string
	have := map[string]bool{}
	for _, dir := range dirs {
		entries, _ := os.ReadDir(dir) // an image has some of them
		at := slices.IndexFunc(entries, func(e os.DirEntry) bool { return versioned().MatchString(e.Name()) })
		if at < 0 {
			continue
		}
		ending := ".so." + versioned().FindStringSubmatch(entries[at].Name())[1]
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ending) && !e.IsDir() && !have[e.Name()] {
				have[e.Name()] = true
				all = append(all, filepath.Join(dir, e.Name()))
			}
		}
	}
	return all
}

// isWithoutDriver says whether the image or the job wants no GPU, as NVIDIA's own tools have it.
func (s Spec) isWithoutDriver(image []string) bool {
	const name = "NVIDIA_VISIBLE_DEVICES"
	value := os.Getenv(name)
	for _, entry := range image {
		if of, given, _ := strings.Cut(entry, "="); of == name && !slices.Contains(s.Env, name) {
			value = given
		}
	}
	return value == "void"
}

// mountDriver gives the container the driver's libraries and programs, where the pod has a GPU.
func (s Spec) mountDriver(in inside) error {
	if !exists(driverDevice) || s.isWithoutDriver(readEnvironment(in.read("etc/environment"))) {
		return nil
	}
	libraries := driverLibraries(libraryDirs)
	if len(libraries) == 0 {
		fmt.Fprintf(os.Stderr, "slurmlet: this node's pod has %s and none of the driver's libraries, so the container has none\n",
			driverDevice)
		return nil
	}
	own := filepath.Join(s.mountpoint(), "nvidia")
	if err := os.MkdirAll(filepath.Join(own, "lib"), 0o755); err != nil {
		return fmt.Errorf("cannot give the container the GPU's driver: %w", err)
	}
	for _, path := range libraries {
		if err := bindFile(path, filepath.Join(own, "lib", filepath.Base(path))); err != nil {
			return fmt.Errorf("cannot give the container the GPU's driver: %w", err)
		}
	}
	// CUDA's programs look for a name without a version, which no SONAME has
	if slices.ContainsFunc(libraries, func(path string) bool { return strings.HasPrefix(filepath.Base(path), "libcuda.so.") }) {
		if err := os.Symlink("libcuda.so.1", filepath.Join(own, "lib", "libcuda.so")); err != nil {
			return fmt.Errorf("cannot give the container the GPU's driver: %w", err)
		}
	}
	if err := s.mount(in, options.Mount{Source: own, Target: driverDir, Create: "dir"}); err != nil {
		return fmt.Errorf("cannot give the container the GPU's driver: %w", err)
	}
	s.indexLibraries(in, own)
	for _, name := range driverPrograms {
		path := filepath.Join("/usr/bin", name)
		if exists(path) { // an image whose /usr/bin cannot be written does without
			_ = s.mount(in, options.Mount{Source: path, Target: path, Create: "file", NoFail: true})
		}
	}
	return nil
}

func bindFile(from, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = unix.Mount(from, to, "", unix.MS_BIND, "")
	}
	return err
}

// indexCache is the linker's cache with the driver's libraries and the image's own.
const indexCache = "ld.so.cache"

// indexLibraries has programs of the container find the driver's libraries: ldconfig of this node makes the links of their
// names and a cache, which is mounted over the image's. Where that fails, the environment names their directory.
func (s Spec) indexLibraries(in inside, own string) {
	conf := driverDir + "/lib\ninclude /etc/ld.so.conf\n"
	err := os.WriteFile(filepath.Join(own, "ld.so.conf"), []byte(conf), 0o644)
	for _, args := range [][]string{
		{"-n", driverDir + "/lib"},
		{"-X", "-C", driverDir + "/" + indexCache, "-f", driverDir + "/ld.so.conf"},
	} {
		if err == nil {
			err = s.ldconfig(args...)
		}
	}
	if err == nil {
		err = s.mount(in, options.Mount{Source: filepath.Join(own, indexCache), Target: "/etc/" + indexCache, Create: "file"})
	}
	if err != nil {
		_ = os.Remove(filepath.Join(own, indexCache)) // withDriver looks for it
		linkByHand(filepath.Join(own, "lib"))
	}
}

// ldconfig runs the node's ldconfig in the container's root. It is a static program in Debian's, Ubuntu's and Red Hat's
// images; Ubuntu's of that name is a script.
func (s Spec) ldconfig(args ...string) error {
	program := "/sbin/ldconfig.real"
	if !exists(program) {
		program = "/sbin/ldconfig"
	}
	var said bytes.Buffer
	cmd := exec.Command(program, append([]string{"-r", s.root()}, args...)...)
	cmd.Env, cmd.Stderr = []string{}, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_CHROOT}
	}
	if err := cmd.Run(); err != nil {
		return errors.Join(err, errors.New(said.String()))
	}
	return nil
}

// linkByHand makes the links that most of the driver's libraries are looked for by.
func linkByHand(dir string) {
	entries, _ := os.ReadDir(dir) // nothing is there without it
	for _, e := range entries {
		if name, _, is := strings.Cut(e.Name(), ".so."); is {
			_ = os.Symlink(e.Name(), filepath.Join(dir, name+".so.1")) // ldconfig may have made it
		}
	}
}

// withDriver is the image's environment, in which the directory of the driver's libraries is named if there is no cache
// of them.
func (i inside) withDriver(image []string) []string {
	if !i.has(driverDir+"/lib") || i.has(driverDir+"/"+indexCache) {
		return image
	}
	path := driverDir + "/lib"
	for _, entry := range image {
		if before, is := strings.CutPrefix(entry, "LD_LIBRARY_PATH="); is && before != "" {
			path = driverDir + "/lib:" + before
		}
	}
	return append(slices.Clone(image), "LD_LIBRARY_PATH="+path)
}
