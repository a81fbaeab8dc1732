package services

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestQuote: sshd's messages name a line, and not always its value.
func TestQuote(t *testing.T) {
	files := map[string][]byte{"site.conf": []byte("Banner none\n  Port abc\n")}
	for said, want := range map[string]string{
		"/d/site.conf line 2: Badly formatted port number.": `/d/site.conf line 2: Badly formatted port number.: the line is "Port abc"`,
		"/d/site.conf: line 2: Bad configuration option: Port; /d/site.conf: terminating, 1 bad configuration options": "/d/site.conf: " +
			`line 2: Bad configuration option: Port; /d/site.conf: terminating, 1 bad configuration options: the line is "Port abc"`,
		"/d/site.conf line 9: no such line":    "/d/site.conf line 9: no such line",
		"/etc/ssh/sshd_config line 2: another": "/etc/ssh/sshd_config line 2: another",
		"no hostkeys available":                "no hostkeys available",
	} {
		require.Equal(t, want, quote(said, "/d", files))
	}
}
