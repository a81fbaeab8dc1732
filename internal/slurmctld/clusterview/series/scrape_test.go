package series

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkScrape is a scrape of what has been collected, over HTTP: 10,000 nodes and 100,000 jobs.
func BenchmarkScrape(b *testing.B) {
	v, texts := large(), NewTexts(Options{})
	for _, c := range []struct {
		name string
		page Page
		gzip bool
	}{{"native", Native, false}, {"native,gzip", Native, true}, {"exporter,gzip", Exporter, true}} {
		b.Run(c.name, func(b *testing.B) {
			texts.Make(v, c.page, c.gzip)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				text := texts.Have(v, c.page, c.gzip)
				text.SetHeader(w.Header())
				_, _ = w.Write(text.Body())
				_, _ = w.Write(text.Tail([]byte("own 1\n")))
			}))
			defer server.Close()
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			var size int64
			for b.Loop() {
				answer, err := client.Get(server.URL)
				require.NoError(b, err)
				size, err = io.Copy(io.Discard, answer.Body)
				require.NoError(b, err)
				answer.Body.Close()
			}
			b.ReportMetric(float64(size)/1e6, "MB/scrape")
		})
	}
}
