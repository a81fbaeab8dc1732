package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/slurmlet/slurmlet/internal/kit/backoff"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

const (
	// timeToHold bounds a request that the controller may hold for 20 s.
	timeToHold = 35 * time.Second
	// mostOrders bounds the answer to a request about pods in Slurm's queue.
	mostOrders = 4 << 20
)

// ReportJobs tells the controller of jobs that stand for groups of pods, and returns what it wants done. The controller holds
// the answer while it wants nothing.
func (c *Client) ReportJobs(ctx context.Context, report *wire.GatewayReport) (wire.GatewayOrders, error) {
	var orders wire.GatewayOrders
	_, err := c.call(ctx, http.MethodPost, "/v1/gateway", report, &orders)
	return orders, err
}

// ReportStarted tells the controller that this node holds for a job, or that the job's script was told to end.
func (c *Client) ReportStarted(ctx context.Context, started wire.Started) error {
	_, err := c.call(ctx, http.MethodPost, "/v1/jobs/started", started, nil)
	return err
}

// JobPods asks which pods of a job are on a node, and for job 0 those of any job. The controller holds the answer while there
// are some. Only none says that there are none; an error says nothing.
func (c *Client) JobPods(ctx context.Context, job uint32, node string) (pods []string, none bool, err error) {
	query := url.Values{"node": {node}}
	if job != 0 {
		query.Set("job", strconv.FormatUint(uint64(job), 10))
	}
	var answer wire.JobPods
	code, err := c.call(ctx, http.MethodGet, "/v1/jobs/pods?"+query.Encode(), nil, &answer)
	switch {
	case err != nil:
		return nil, false, err
	case code == http.StatusNoContent:
		return nil, true, nil
	case code != http.StatusOK:
		return nil, false, fmt.Errorf("the controller answers %d to a question for pods: want 200 or 204", code)
	}
	return answer.Pods, false, nil
}

// call makes a request that the controller may hold, and reads the whole answer.
func (c *Client) call(ctx context.Context, method, path string, body, answer any) (code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeToHold)
	defer cancel()
	q := request{method: method, path: path}
	if body != nil {
		if q.body, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	dialing, dialed := context.WithTimeout(ctx, timeToConnect)
	conn, err := c.connect(dialing, &q)
	dialed()
	if err != nil {
		return 0, err
	}
	defer conn.NetConn().Close() // the answer says all
	stop := context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })
	defer stop()
	response, err := send(ctx, conn, c.host, q, bufio.NewReaderSize(conn, mostHead))
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	c.mu.Lock()
	c.last = conn.RemoteAddr().String()
	c.mu.Unlock()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostOrders+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot read the controller's answer: %w", err)
	case len(text) > mostOrders:
		return 0, fmt.Errorf("the controller's answer has more than %d bytes", mostOrders)
	case answer != nil && len(text) > 0:
		if err := json.Unmarshal(text, answer); err != nil {
			return 0, fmt.Errorf("cannot read the controller's answer: %w", err)
		}
	}
	return response.StatusCode, nil
}

// PauseAfter is how long to wait before a request that has failed so many times is made again.
func PauseAfter(err error, tries int) time.Duration {
	least, most := leastPause, lastRetry
	refused, is := errors.AsType[*refusal](err)
	if is && (refused.code == http.StatusMisdirectedRequest || refused.code == http.StatusServiceUnavailable) {
		least, most = leastPause/5, lastLeaderSearch // the Service leads to another replica soon, or this one knows all soon
	}
	pause := backoff.Grow(least, tries, most)
	pause = pause/2 + rand.N(pause)
	if is {
		pause = max(pause, refused.wait)
	}
	return pause
}
