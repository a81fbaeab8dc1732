package agent

import (
	"math/rand/v2"
	"mime"
	"strconv"
	"time"
)

// slurmctld's agent has slurmds restarted that have not followed a reconfigure: it answers
// their agents, which wait for news (feed.go), with the hashes of the set that is tried. Who
// can answer them can do that anyway.

// urgeParameter of the answer's type has a slurmd restarted, and says within how many
// milliseconds. An agent that does not know it takes the answer for news.
const urgeParameter = "restart"

const (
	// longestUrge bounds what is heard from slurmctld's agent.
	longestUrge = 30 * time.Second
)

// urge answers those who wait on some hosts.
func (f *feed) urge(m manifest, hosts map[string]bool, within time.Duration) {
	f.port.Do(func() {
		f.port.Answer(func(tag string) bool {
			host, unlike := parseTag(tag)
			return hosts[host] && unlike != m.hash
		}, urgeType(within), m.String())
	})
}

// hosts are those on which somebody waits.
func (f *feed) hosts() map[string]bool {
	found := make(chan map[string]bool, 1)
	f.port.Do(func() {
		all := map[string]bool{}
		f.port.Answer(func(tag string) bool {
			host, _ := parseTag(tag)
			all[host] = true
			return false
		}, "", "")
		found <- all
	})
	select {
	case all := <-found:
		return all
	case <-time.After(time.Second): // the port is closed
		return nil
	}
}

func urgeType(within time.Duration) string {
	return mime.FormatMediaType("text/plain", map[string]string{urgeParameter: strconv.FormatInt(within.Milliseconds(), 10)})
}

// urgedBy is what the answer of slurmctld's agent asks for, nil for nothing.
func urgedBy(contentType string) *time.Duration {
	_, parameters, err := mime.ParseMediaType(contentType)
	ms, wrong := strconv.ParseUint(parameters[urgeParameter], 10, 31)
	if err != nil || wrong != nil {
		return nil
	}
	within := min(time.Duration(ms)*time.Millisecond, longestUrge)
	return &within
}

// restartFor restarts slurmd, which then starts with what slurmctld has now: it has not
// followed. The same may be heard twice, by a question that is open as well.
func (f *follower) restartFor(m manifest) {
	if f.urged == m.hash && time.Since(f.urgedAt) < restartLimit {
		return
	}
	f.urged, f.urgedAt, f.announced = m.hash, time.Now(), m
	select {
	case <-time.After(rand.N(*m.urged + 1)):
		f.agent.post(outdated{})
	case <-f.agent.over:
	}
}
