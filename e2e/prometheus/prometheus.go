// Package prometheus asks a Prometheus that a test runs.
package prometheus

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Server is the address of a Prometheus, host:port.
type Server string

// Ask reads the data of an answer of its API, as of "query" or "rules".
func (s Server) Ask(path string, values url.Values, data any) error {
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + string(s) + "/api/v1/" + path + "?" + values.Encode()) //nolint:noctx // it has a timeout
	if err != nil {
		return fmt.Errorf("cannot ask Prometheus: %w", err)
	}
	defer answer.Body.Close()
	reply := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(answer.Body).Decode(&reply); err != nil {
		return fmt.Errorf("cannot read the answer of Prometheus: %w", err)
	}
	if reply.Status != "success" {
		return fmt.Errorf("prometheus refuses %s: %s", values, reply.Error)
	}
	return nil
}
