package rootfs

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/save"
)

// SaveContainer saves the container of a holder as the options say. A step that is cancelled has Slurm signal this
// process.
func SaveContainer(s Spec, holder int) error {
	if s.Save == "" {
		return nil
	}
	if nodes := os.Getenv("SLURM_STEP_NUM_NODES"); nodes != "" && nodes != "1" && os.Getenv("SLURM_NODEID") == "0" {
		fmt.Fprintf(os.Stderr, "slurmlet: each of the step's %s nodes saves its own container to %s: on a file system that they share, the last one's "+
			"file stays (--nodes=1)\n", nodes, s.Save)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	from := filepath.Join("/proc", strconv.Itoa(holder), "root", s.plain())
	return save.Run(ctx, from, s.Save, nodeName(), os.Stderr)
}
