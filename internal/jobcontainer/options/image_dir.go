package options

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// place is what stands for a user in a directory for images.
var place = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%.?`) })

// CheckImageDir judges a directory for images that nodes share. Each user must have one of their own.
func CheckImageDir(dir string) error {
	own := false
	for _, found := range place().FindAllString(dir, -1) {
		switch found {
		case "%h", "%u", "%U":
			own = true
		default:
			return fmt.Errorf("%s stands for nothing: want %%h (the home directory), %%u (the user's name) or %%U (the user's id)", found)
		}
	}
	switch {
	case !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "%h/"):
		return errors.New("want an absolute path, or one that begins with %h/")
	case !own:
		return errors.New("want a directory of each user's own, with %h, %u or %U in it")
	}
	return nil
}

// ImageDirOf is the directory of one user; empty where nodes share none.
func (o Options) ImageDirOf(home, user string, uid int) (string, error) {
	if strings.Contains(o.ImageDir, "%h") && !strings.HasPrefix(home, "/") {
		return "", fmt.Errorf("plugstack.conf has image_dir=%s, and HOME is %q: want an absolute path", o.ImageDir, home)
	}
	if strings.Contains(o.ImageDir, "%u") && (user == "" || strings.Contains(user, "/")) {
		return "", fmt.Errorf("plugstack.conf has image_dir=%s, and the user's name is %q", o.ImageDir, user)
	}
	return strings.NewReplacer("%h", home, "%u", user, "%U", strconv.Itoa(uid)).Replace(o.ImageDir), nil
}
