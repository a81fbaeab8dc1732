package agent

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Answer is what the agent says to a command.
type Answer struct {
	Error string `json:"error,omitempty"`
}

// handleCommand answers a request with what do has led to. It may take its time.
func (a *Agent) handleCommand(do func(ctx context.Context, r *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		patient := http.NewResponseController(w) // a read that is overdue would cancel the request
		_, _ = patient.SetReadDeadline(time.Time{}), patient.SetWriteDeadline(time.Time{})
		var answer Answer
		if err := do(r.Context(), r); err != nil {
			answer.Error = err.Error()
			w.WriteHeader(http.StatusConflict)
		}
		_ = json.NewEncoder(w).Encode(answer) // the reader has gone
	}
}
