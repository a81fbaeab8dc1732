package importer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/layers"
)

func findSqfstar() (string, error) {
	path, err := exec.LookPath("sqfstar")
	if err != nil { // a job may have any PATH
		path, err = exec.LookPath("/usr/bin/sqfstar")
	}
	if err != nil {
		return "", errors.New("a squashfs file needs sqfstar here (Debian's package squashfs-tools)")
	}
	return path, nil
}

// memory is what sqfstar may use for its queues, in MiB. Of itself it takes a quarter of the machine's.
const memory = 256

// write has sqfstar write the file. lz4 costs little time, and a reader of the file less than a disk.
func (i *Import) write(ctx context.Context, program, file string, tree *layers.Tree, blobs []*blob) error {
	cmd := exec.CommandContext(ctx, program, "-comp", "lz4", "-all-root", "-root-mode", "0755", "-default-mode", "0755",
		"-no-progress", "-quiet", "-processors", strconv.Itoa(runtime.GOMAXPROCS(0)), "-mem", strconv.Itoa(memory)+"M", file)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", program, err)
	}
	end := i.tell("writes the file, layers")
	err = i.feed(ctx, input, tree, blobs)
	end()
	if failed := input.Close(); err == nil && !errors.Is(failed, os.ErrClosed) {
		err = failed
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		_ = cmd.Process.Kill() // it would make a file of half the image
		_ = cmd.Wait()
		return err
	}
	if failed := cmd.Wait(); failed != nil || err != nil {
		return fmt.Errorf("cannot write %s: %s: %w: %s", i.Output, program, errors.Join(failed, err), strings.TrimSpace(said.String()))
	}
	return nil
}

func (i *Import) feed(ctx context.Context, out io.Writer, tree *layers.Tree, blobs []*blob) error {
	w, err := tree.Begin(out)
	for n := 0; err == nil && n < len(blobs); n++ {
		blobs[n].done = &i.done
		err = blobs[n].read(ctx, func(r io.Reader) error { return w.Layer(n, r) })
	}
	if err != nil {
		return err
	}
	return w.Close()
}
