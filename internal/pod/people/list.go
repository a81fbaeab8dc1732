package people

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// listDir is where libnss-extrausers reads its list (passwd, group), which the chart mounts.
	listDir = "var/lib/extrausers"
	// confirmed is a file beside the list with the names that may leave although they are many, one a line.
	confirmed = "removed"
)

// readList reads the list below root. It has none where there is no file.
func readList(root string) (list map[string]int, has bool, err error) {
	list, err = readPasswd(filepath.Join(root, listDir, "passwd"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return list, err == nil, err
}

// readPasswd reads a file as of passwd(5). A line that is none is an error, because nobody knows who is missing then.
func readPasswd(path string) (map[string]int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parsePasswd(string(text))
}

func parsePasswd(text string) (map[string]int, error) {
	all := map[string]int{}
	if text != "" && !strings.HasSuffix(text, "\n") {
		return nil, errors.New("cannot read the list of users: its last line has no end")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, ":")
		if len(fields) != 7 || fields[0] == "" {
			return nil, fmt.Errorf("cannot read the list of users: %q is no line of passwd(5)", line)
		}
		uid, err := strconv.Atoi(fields[2])
		if err != nil || uid < 0 {
			return nil, fmt.Errorf("cannot read the list of users: %q has no uid", line)
		}
		all[fields[0]] = uid
	}
	return all, nil
}

// readConfirmed reads the names that may leave although they are many. What cannot be read confirms nobody.
func readConfirmed(root string) map[string]bool {
	all := map[string]bool{}
	text, _ := os.ReadFile(filepath.Join(root, listDir, confirmed)) // there is none in most pods
	for name := range strings.FieldsSeq(string(text)) {
		all[name] = true
	}
	return all
}
