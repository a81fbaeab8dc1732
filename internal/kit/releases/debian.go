package releases

import (
	"bufio"
	"io"
	"io/fs"
	"strings"
)

// maxStatus is more than dpkg's database has on any machine.
const maxStatus = 64 << 20

// Installed is the version of a package of Debian's, empty where dpkg has not installed it below root. An image
// without dpkg has its packages in status.d.
func Installed(root fs.FS, name string) string {
	for _, file := range []string{"var/lib/dpkg/status", "var/lib/dpkg/status.d/" + name} {
		if version := installedBy(root, file, name); version != "" {
			return version
		}
	}
	return ""
}

// installedBy reads one file of paragraphs (deb822(5)).
func installedBy(root fs.FS, file, name string) string {
	f, err := root.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, maxStatus))
	lines.Buffer(nil, 1<<20)
	found, version, gone := false, "", false
	for lines.Scan() {
		line := lines.Text()
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch {
		case line == "":
			if found && version != "" && !gone {
				return version
			}
			found, version, gone = false, "", false
		case key == "Package":
			found = value == name
		case key == "Version":
			version = value
		case key == "Status":
			gone = !strings.HasSuffix(value, " installed")
		}
	}
	if !found || gone || lines.Err() != nil {
		return ""
	}
	return version
}
