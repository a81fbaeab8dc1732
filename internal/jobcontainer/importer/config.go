package importer

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/slurmlet/slurmlet/internal/jobcontainer/layers"
)

// configure adds enroot's files to an image: its variables are in /etc/environment, its volumes in /etc/fstab, and its
// working directory, entrypoint and command in /etc/rc, which a container is started with.
func configure(tree *layers.Tree, c v1.Config) error {
	workdir := c.WorkingDir
	if workdir == "" {
		workdir = "/"
	}
	if strings.ContainsAny(workdir, "\"'\n\x00") {
		return fmt.Errorf("the image's working directory is %q, which enroot's /etc/rc cannot name", workdir)
	}
	tree.Mkdir(workdir)
	for _, f := range []struct {
		name, text string
		mode       int64
	}{
		{"etc/environment", environment(c.Env), 0o644},
		{"etc/fstab", volumes(c.Volumes), 0o644},
		{"etc/rc", rc(workdir, c), 0o755},
		{"etc/rc.local", layers.StartLocal, 0o644},
	} {
		if err := tree.Write(f.name, f.text, f.mode); err != nil {
			return fmt.Errorf("cannot add /%s: %w", f.name, err)
		}
	}
	return nil
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*=[^\n\x00]*$`)

// environment leaves out what a line cannot hold.
func environment(all []string) string {
	var text strings.Builder
	for _, entry := range all {
		if variable.MatchString(entry) {
			text.WriteString(entry + "\n")
		}
	}
	return text.String()
}

func volumes(all map[string]struct{}) string {
	var text strings.Builder
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if path != "" && !strings.ContainsAny(path, " \t\n\x00") {
			fmt.Fprintf(&text, "${ENROOT_ROOTFS}%s %s none x-create=dir,bind,rw,nosuid,nodev\n", path, path)
		}
	}
	return text.String()
}

// rc is a shell's script, which is given the command to run, or none for the image's own.
func rc(workdir string, c v1.Config) string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(c.Labels)) {
		labels = append(labels, oneLine(name)+" "+oneLine(c.Labels[name]))
	}
	entrypoint, command := quoted(c.Entrypoint), quoted(c.Cmd)
	if entrypoint+command == "" {
		command = " '/bin/sh'"
	}
	return layers.Start(labels, workdir, entrypoint, command)
}

func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}

// quoted are words as a shell reads them, each with a space before it.
func quoted(words []string) string {
	var text strings.Builder
	for _, word := range words {
		text.WriteString(" '" + strings.ReplaceAll(strings.ReplaceAll(word, "\x00", ""), "'", `'\''`) + "'")
	}
	return text.String()
}
