package rootfs

import (
	"context"
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
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	from := filepath.Join("/proc", strconv.Itoa(holder), "root", s.plain())
	return save.Run(ctx, from, s.Save, nodeName(), os.Stderr)
}
