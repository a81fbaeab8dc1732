package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is the commit that a release is built from.
type source struct {
	commit string
	when   time.Time // the commit's, and so the time of everything that is built
}

// semantic is a version with a v (semver.org), without build metadata, which no
// image's tag may have.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func checkVersion(version string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("want a version such as v0.1.0, not %q: VERSION=v0.1.0", version)
	}
	return nil
}

// tagged returns the commit that is checked out. It must be the one that the tag
// names, without a change.
func tagged(ctx context.Context, tag string) (source, error) {
	changed, err := git(ctx, "status", "--porcelain")
	if err != nil {
		return source{}, err
	}
	if changed != "" {
		return source{}, fmt.Errorf("cannot release a changed checkout:\n%s", changed)
	}
	head, err := git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return source{}, err
	}
	named, err := git(ctx, "rev-parse", "--verify", "--quiet", "refs/tags/"+tag+"^{commit}")
	if err != nil {
		return source{}, fmt.Errorf("cannot release %s: there is no such tag", tag)
	}
	if named != head {
		return source{}, fmt.Errorf("cannot release %s: the tag names commit %s, and %s is checked out", tag, named, head)
	}
	seconds, err := git(ctx, "show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return source{}, err
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("cannot read the commit's time: %w", err)
	}
	return source{commit: head, when: time.Unix(n, 0).UTC()}, nil
}

func git(ctx context.Context, args ...string) (string, error) {
	return output(exec.CommandContext(ctx, "git", args...))
}

// output runs a command whose complaints go to the terminal.
func output(cmd *exec.Cmd) (string, error) {
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot run %s: %w", strings.Join(cmd.Args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
