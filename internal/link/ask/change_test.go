package ask

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChange(t *testing.T) {
	for _, c := range []struct {
		change Change
		says   string
	}{
		{Change{Delete, "n1", "", ""}, ""},
		{Change{Drain, "pool-7.a_b", "slurmlet: pod is terminating", ""}, ""},
		{Change{Fail, "n1", "größer & more=less", ""}, ""},
		{Change{Resume, "n1", "", ""}, ""},
		{Change{Recount, "n1", "", ""}, ""},
		{Change{Recount, "n1", "why", ""}, "for nothing else"},
		{Change{"reboot", "n1", "", ""}, "no such verb"},
		{Change{"", "n1", "", ""}, "no such verb"},
		{Change{Delete, "", "", ""}, "not the name of a node"},
		{Change{Delete, "n[1-3]", "", ""}, "not the name of a node"},
		{Change{Delete, "n1,n2", "", ""}, "not the name of a node"},
		{Change{Delete, "n1 state=down", "", ""}, "not the name of a node"},
		{Change{Delete, "-f", "", ""}, "not the name of a node"},
		{Change{Delete, "n{1}", "", ""}, "not the name of a node"},
		{Change{Delete, "n1\nn2", "", ""}, "not the name of a node"},
		{Change{Delete, strings.Repeat("n", 254), "", ""}, "not the name of a node"},
		{Change{Delete, "n1", "why", ""}, "for nothing else"},
		{Change{Delete, "n1", "", "CPUs=2 RealMemory=300"}, ""},
		{Change{Renew, "n1", "", "CPUs=2 Boards=1 Gres=gpu:a100:2(S:0) Features=a,b=c Topology=default:rack1"}, ""},
		{Change{Renew, "n1", "", ""}, "parameters to renew"},
		{Change{Renew, "n1", "", "CPUs=2 State=IDLE"}, "as slurmd registers"},
		{Change{Renew, "n1", "", "CPUs=2 NodeName=n2"}, "as slurmd registers"},
		{Change{Renew, "n1", "", "CPUs=2\nRealMemory=;x"}, "as slurmd registers"},
		{Change{Renew, "n1", "", "Gres=" + strings.Repeat("x", mostConf)}, "at most"},
		{Change{Drain, "n1", "why", "CPUs=2"}, "but its deletion"},
		{Change{PowerDown, "n1", "slurmlet: pod is terminating", ""}, ""},
		{Change{PowerDown, "n1", "", ""}, ""},
		{Change{PowerDown, "n1", " ", ""}, "want a reason"},
		{Change{PowerOff, "n1", "slurmlet: pod is terminating", ""}, ""},
		{Change{PowerOff, "n1", "", ""}, "want a reason"},
		{Change{Drain, "n1", " ", ""}, "want a reason"},
		{Change{Drain, "n1", "one\ntwo", ""}, "in one line"},
		{Change{Drain, "n1", strings.Repeat("x", mostReason+1), ""}, "at most"},
	} {
		err := c.change.Check()
		if c.says != "" {
			require.ErrorContains(t, err, c.says, "%q", c.change)
			continue
		}
		require.NoError(t, err, "%q", c.change)
	}
}

// FuzzChange: what is taken is one node's, and is read again as it was written.
func FuzzChange(f *testing.F) {
	f.Add("verb=delete&node=n1")
	f.Add("verb=drain&node=n1&reason=x%0ay")
	f.Add("verb=drain&node=n1,n2&reason=x")
	f.Add("verb=renew&node=n1&conf=CPUs%3d2+RealMemory%3d5")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		c, err := Parse(query)
		if err != nil {
			return
		}
		require.NotContains(t, c.Node, ",")
		require.False(t, strings.ContainsAny(c.Node, " []{}=\x00"))
		path, after, found := strings.Cut(c.target(), "?")
		require.True(t, found && path == Path)
		again, err := url.ParseQuery(after)
		require.NoError(t, err)
		back, err := Parse(again)
		require.NoError(t, err)
		require.Equal(t, c, back)
	})
}

// FuzzResult: what is read is written again as it was, and nothing but its word says done.
func FuzzResult(f *testing.F) {
	for _, text := range []string{"done", "busy jobs", "refused done", "silent", "unasked", "", "done done", "DONE"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseResult(text)
		if err != nil {
			return
		}
		require.Equal(t, r.Word == Done, text == "done" || strings.HasPrefix(text, "done "))
		if len(r.Text) <= mostText && strings.TrimSpace(text) == text {
			require.Equal(t, text, r.String())
		}
	})
}
