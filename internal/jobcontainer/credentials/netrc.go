package credentials

import "strings"

// login is one line of enroot's .credentials.
type login struct{ machine, user, password string }

// parseNetrc reads enroot's .credentials: "machine NAME login USER password SECRET", also over several lines. A secret
// that begins with $( reaches to the end of its line, because enroot has a shell evaluate it.
func parseNetrc(text string) []login {
	var all []login
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		for line != "" && !strings.HasPrefix(line, "#") {
			var key, value string
			key, line = word(line)
			if key == "default" {
				all = append(all, login{})
				continue
			}
			if key == "password" && strings.HasPrefix(line, "$(") {
				value, line = line, ""
			} else {
				value, line = word(line)
			}
			switch {
			case key == "machine":
				all = append(all, login{machine: value})
			case len(all) == 0:
			case key == "login":
				all[len(all)-1].user = value
			case key == "password":
				all[len(all)-1].password = value
			}
		}
	}
	return all
}

// word cuts the first word off a line.
func word(line string) (first, rest string) {
	end := strings.IndexAny(line, " \t")
	if end < 0 {
		return line, ""
	}
	return line[:end], strings.TrimLeft(line[end:], " \t")
}

// find returns the first login of a user at one of the machines, which are tried in their order; an empty user is any.
func find(all []login, machines []string, user string) (login, bool) {
	for _, machine := range machines {
		for _, l := range all {
			if l.machine == machine && (user == "" || l.user == user) && l.user != "" && l.password != "" {
				return l, true
			}
		}
	}
	return login{}, false
}
