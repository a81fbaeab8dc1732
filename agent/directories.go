package agent

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/slurmlet/slurmlet/internal/pod/tempdirs"
)

// places are the directories that the processes of several users share, and those that only daemons write.
func (c Config) places() tempdirs.Places {
	p := tempdirs.Places{
		Shared:  tempdirs.Unique("/tmp", "/var/tmp", "/dev/shm", c.TmpDir),
		Daemons: tempdirs.Unique("/run", c.RunDir),
	}
	if c.Role == Slurmd {
		p.Daemons = tempdirs.Unique("/run", c.RunDir, c.SpoolDir)
	}
	return p
}

// secureDirectories mends the directories in which users could remove or replace the files of others. The
// container ends where one stays like that. Where no users come, nothing is looked at.
func (a *Agent) secureDirectories() error {
	if !a.daemon.registers && !a.daemon.hosts {
		return nil
	}
	changes, err := tempdirs.Secure(a.Root, a.Config.places())
	if len(changes) > 0 {
		var told []string
		for _, c := range changes {
			told = append(told, c.String())
		}
		a.log(slog.LevelInfo, "users could remove each other's files, or the daemons': "+strings.Join(told, "; "))
	}
	if err != nil {
		return &Fault{Code: ExitConfig, Err: fmt.Errorf("some users could remove the files of others: %w", err)}
	}
	return nil
}
