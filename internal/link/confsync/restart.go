package confsync

import (
	"mime"
	"strconv"
	"time"
)

// slurmctld's agent has slurmds restarted that have not followed a reconfigure: it answers
// their agents, which wait for the next announcement, with the hashes of the set that is
// tried. Whoever can answer them can have slurmds restarted anyway.

// restartParameter of the answer's type has a slurmd restarted, and says within how many
// milliseconds. An agent that does not know it takes the answer for an announcement.
const restartParameter = "restart"

// longestRestart bounds what slurmctld's agent may ask for.
const longestRestart = 30 * time.Second

// Restart has the slurmds on some hosts restarted into the configuration in dir, within a time.
func (f *Feed) Restart(dir string, hosts map[string]bool, within time.Duration) {
	files, _ := served(dir)
	f.restart(newManifest(files), hosts, within)
}

func (f *Feed) restart(m manifest, hosts map[string]bool, within time.Duration) {
	f.port.Do(func() {
		f.answer(restartType(within), m.String(), func(w waiter) bool { return hosts[w.host] && w.hash != m.hash })
	})
}

// Hosts are those on which an agent waits.
func (f *Feed) Hosts() map[string]bool {
	found := make(chan map[string]bool, 1)
	f.port.Do(func() {
		all := map[string]bool{}
		f.answer("", "", func(w waiter) bool {
			all[w.host] = true
			return false
		})
		found <- all
	})
	select {
	case all := <-found:
		return all
	case <-time.After(time.Second): // the port is closed
		return nil
	}
}

func restartType(within time.Duration) string {
	return mime.FormatMediaType("text/plain", map[string]string{restartParameter: strconv.FormatInt(within.Milliseconds(), 10)})
}

// parseRestart is within which time the answer of slurmctld's agent has slurmd restarted,
// nil for not at all.
func parseRestart(contentType string) *time.Duration {
	ms := numberParameter(contentType, restartParameter)
	if ms < 0 {
		return nil
	}
	within := min(time.Duration(ms)*time.Millisecond, longestRestart)
	return &within
}

// parameter is the value of a parameter of an answer's Content-Type, and empty if it has none of the name.
func parameter(contentType, name string) string {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return parameters[name]
}

// numberParameter is a number among them, -1 for none.
func numberParameter(contentType, name string) int64 {
	n, err := strconv.ParseUint(parameter(contentType, name), 10, 31)
	if err != nil {
		return -1
	}
	return int64(n)
}
