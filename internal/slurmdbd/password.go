package slurmdbd

import (
	"errors"
	"strings"
)

// passwordFile holds the database's password where slurmdbd.conf does not: a key of a Secret that somebody else keeps, put
// beside slurmdbd.conf under this name.
const passwordFile = "StoragePass"

// addPassword adds the password of its file to slurmdbd.conf. The error has nothing of it.
func addPassword(files map[string][]byte) error {
	content, given := files[passwordFile]
	if !given {
		return nil
	}
	delete(files, passwordFile)
	password := strings.TrimRight(string(content), "\r\n")
	switch {
	case password == "":
		return errors.New("cannot use the file StoragePass: it is empty")
	case strings.ContainsFunc(password, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return errors.New("cannot use the file StoragePass: a password has no control characters in slurmdbd.conf")
	case strings.HasPrefix(password, `"`) || strings.Contains(password, `"`) && strings.Contains(password, " "):
		return errors.New(`cannot use the file StoragePass: slurmdbd.conf holds no " at a password's begin or beside blanks`)
	}
	password = strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(password)
	if strings.Contains(password, " ") {
		password = `"` + password + `"`
	}
	conf := strings.TrimRight(string(files[slurmdbdConf]), "\n")
	files[slurmdbdConf] = []byte(conf + "\nStoragePass=" + password + "\n")
	return nil
}
