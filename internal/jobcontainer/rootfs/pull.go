package rootfs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/imagecache"
	"github.com/slurmlet/slurmlet/internal/jobcontainer/imageref"
)

// Importer is the program that knows registries. It is installed beside this one.
func Importer() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("cannot find slurmlet-import: %w", err)
	}
	return filepath.Join(filepath.Dir(self), "slurmlet-import"), nil
}

// findPulled takes a registry's image out of the user's cache. Where it is not there, or a tag names it, fetch has it
// there.
func (s *Spec) findPulled(image string, fetch func(cache imagecache.Cache, step, image string) (string, *os.File, error)) error {
	ref, err := imageref.Parse(image)
	if err == nil && ref.Image == nil {
		err = errors.New("it is in no registry")
	}
	if err != nil {
		return fmt.Errorf("--container-image=%s: %w", image, err)
	}
	device, err := openFUSE()
	if err != nil { // before a pull that would be for nothing
		return fmt.Errorf("--container-image=%s: the node keeps it as a squashfs file: %w", image, err)
	}
	_ = unix.Close(device)
	cache, step, err := s.imageCache()
	if err == nil {
		err = cache.Check()
	}
	if err != nil {
		return err
	}
	digest, held, err := takeCached(cache, ref)
	if err == nil && held == nil {
		digest, held, err = fetch(cache, step, image)
	}
	if err != nil {
		return err
	}
	if err := s.findPath(cache.Path(digest)); err != nil {
		return err
	}
	s.held, s.Cached, s.pinned = held, digest, ref.At(digest).Text()
	return nil
}

// imageCache is the user's cache: this node's, or one that a step's nodes share, with the step's id.
func (s *Spec) imageCache() (cache imagecache.Cache, step string, err error) {
	dir, err := s.ImageDirOf(s.Home, s.User, s.UID)
	if dir == "" || err != nil {
		return imagecache.Of(s.Store, s.UID, s.ImageCache), "", err
	}
	cache, err = imagecache.Shared(dir, s.ImageCache)
	return cache, stepID(os.Getenv), err
}

// stepID distinguishes a step from all others that may use the same images.
func stepID(getenv func(string) string) string {
	var parts []string
	for _, name := range []string{"SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"} {
		parts = append(parts, getenv(name))
	}
	return strings.Join(parts, ".")
}

// takeCached finds an image that a digest names, about which there is nothing to ask. The digest may be that of an
// index, which was resolved when the image was pulled.
func takeCached(cache imagecache.Cache, ref imageref.Reference) (string, *os.File, error) {
	digest := ref.Digest()
	if digest == "" {
		return "", nil, nil
	}
	digest = cmp.Or(cache.Recall(ref.String()).Image, digest)
	held, err := cache.Hold(digest)
	return digest, held, err
}

// pull has slurmlet-import bring an image into the cache, and holds it there. A step that is cancelled has Slurm signal
// both programs: this one waits until the other has cleaned up.
func pull(cache imagecache.Cache, step, image string) (string, *os.File, error) {
	program, err := Importer()
	if err != nil {
		return "", nil, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cmd := exec.CommandContext(ctx, program, "--cache="+cache.Dir, "--limit="+strconv.FormatInt(cache.Limit, 10), "--node="+nodeName(),
		"--step="+step, image)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, fmt.Errorf("cannot pull %s: %w", image, err)
	}
	answer, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, fmt.Errorf("cannot pull %s: %w", image, err)
	}
	digest, _ := bufio.NewReader(answer).ReadString('\n') // without one, slurmlet-import has said why
	digest = strings.TrimSpace(digest)
	var held *os.File
	if digest != "" {
		held, err = cache.Hold(digest)
	}
	_ = hold.Close()
	if failed := cmd.Wait(); failed != nil {
		if cmd.ProcessState.ExitCode() < 0 && ctx.Err() == nil {
			return "", nil, fmt.Errorf("cannot pull %s: slurmlet-import: %w (a pull needs memory of the step's)", image, failed)
		}
		return "", nil, ErrReported
	}
	if err == nil && held == nil {
		err = fmt.Errorf("cannot pull %s: slurmlet-import has left no image %q", image, digest)
	}
	return digest, held, err
}

// nodeName is Slurm's name of the node. Many nodes write to one terminal.
func nodeName() string {
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	name, _ := os.Hostname() // without it, there is none
	return name
}
