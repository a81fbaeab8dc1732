package webpage

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReaderOnLoopback: kubectl port-forward reads everything, and a browser that another site's page has led here by
// a name of its own reads nothing.
func TestReaderOnLoopback(t *testing.T) {
	s := openAt(t, sample(3, 10), Entrance{Address: "127.0.0.1:0"})
	for host, code := range map[string]int{
		"": 200, "127.0.0.1:8818": 200, "localhost": 200, "localhost:9000": 200, "LOCALHOST:1": 200, "[::1]:8818": 200, "[::1]": 200, "127.7.8.9": 200,
		"evil.example.com": 421, "evil.example.com:8818": 421, "localhost.evil.example.com": 421, "127.0.0.1.evil.example.com": 421, "10.1.2.3:8818": 421, "[fe80::1]": 421,
	} {
		for _, path := range []string{"/", "/events?seen=0"} {
			if path != "/" && code == 200 {
				continue // it does not end
			}
			have, _, body := s.request(t, "GET", path, func(r *http.Request) {
				if host != "" {
					r.Host = host
				}
			})
			require.Equal(t, code, have, "%s %s", host, path)
			if code == 200 {
				require.Contains(t, body, "cpu-0000")
			} else {
				require.NotContains(t, body, "cpu-0000")
			}
		}
	}
}
