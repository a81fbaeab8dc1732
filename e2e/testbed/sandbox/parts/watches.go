package parts

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// instances is how many processes of a user may watch files at once (inotify(7)), and enough how many suffice for some
// hundred pods beside each other. A namespace of its own does not help: the kernel counts by user.
const (
	instances = "/proc/sys/fs/inotify/max_user_instances"
	enough    = 1024
)

// AllowWatches raises Linux's 128 until the machine boots again. Agents beyond the limit look at their files once a minute.
func AllowWatches(p Progress) error {
	text, err := os.ReadFile(instances)
	if err != nil {
		return fmt.Errorf("cannot tell how many may watch files: %w", err)
	}
	now, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", instances, err)
	}
	if now >= enough {
		return nil
	}
	p("raises fs.inotify.max_user_instances from %d to %d until the machine boots again: each pod's agent watches files", now, enough)
	if err := os.WriteFile(instances, []byte(strconv.Itoa(enough)), 0); err != nil {
		return fmt.Errorf("cannot raise fs.inotify.max_user_instances: %w", err)
	}
	return nil
}
