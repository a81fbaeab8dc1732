package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// changeWait is how long a client of GET /elastic waits for a change: less than the socket's WriteTimeout.
const changeWait = 8 * time.Second

// revisionHeader has the revision of an answer.
const revisionHeader = "Slurmlet-Revision"

// Serve answers with all elastic nodes as slurmlet's controller gets them (wire.NodeReport). With
// ?after=REVISION it waits for another revision, and answers after some seconds in any case.
func (r *Reconciler) Serve(w http.ResponseWriter, request *http.Request) {
	var after uint64
	if text := request.FormValue("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			http.Error(w, fmt.Sprintf("after: cannot use %q: want a revision, a whole number", text), http.StatusBadRequest)
			return
		}
	}
	ctx, cancel := context.WithTimeout(request.Context(), changeWait)
	defer cancel()
	for {
		r.mu.Lock()
		revision, reports, next := r.status.Revision, r.elasticReports, r.looked
		r.mu.Unlock()
		if revision == 0 && (after == 0 || ctx.Err() != nil) { // nobody knows the nodes: none would say that there are none
			http.Error(w, "slurmctld has not been asked for the nodes yet", http.StatusServiceUnavailable)
			return
		}
		if revision != 0 && (revision != after || ctx.Err() != nil) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(revisionHeader, strconv.FormatUint(revision, 10))
			if len(reports) == 0 {
				_, _ = w.Write([]byte("[]\n")) // the reader has gone
				return
			}
			_ = json.NewEncoder(w).Encode(reports) // the reader has gone
			return
		}
		select {
		case <-ctx.Done():
		case <-next:
		}
	}
}
