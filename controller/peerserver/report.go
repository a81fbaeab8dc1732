package peerserver

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/slurmlet/slurmlet/internal/kit/role"
	"github.com/slurmlet/slurmlet/internal/link/wire"
)

const (
	// mostNodes is Slurm's own bound of a cluster's nodes (MaxNodeCount).
	mostNodes = 65_536
	// mostNodeName is more than Slurm's own names have, and mostSet more than the label of a set.
	mostNodeName, mostSet = 255, 63
	// mostDrain is what slurmctld's agent leaves of a reason, in bytes, and mostDigest more than a digest has.
	mostDrain, mostDigest = 256, 128
)

// report takes a Report of slurmctld's agent. One that is not whole must follow the last one that this
// replica has taken.
func (s *Server) report(w http.ResponseWriter, r *http.Request, id Identity) {
	if id.Role != role.Slurmctld || s.Reported == nil {
		s.refuse(w, http.StatusForbidden)
		return
	}
	if s.Leads != nil && !s.Leads() {
		s.refuse(w, http.StatusMisdirectedRequest)
		return
	}
	conn, _ := r.Context().Value(connectionKey{}).(net.Conn)
	d := &delivery{id: id, conn: conn, size: int(r.ContentLength)}
	out, err := s.intake.admit(d)
	for _, one := range out {
		s.count.crowded.Add(1)
		if one.conn != nil {
			go reset(one.conn) // which waits until nobody reads it any more
		}
	}
	if err == nil {
		defer s.intake.leave(d)
		err = s.take(w, r, d)
	}
	if err != nil {
		s.refuseReport(w, id, err)
	}
}

// take reads the body, and answers. An error is NotTaken, or nobody hears it any more.
func (s *Server) take(w http.ResponseWriter, r *http.Request, d *delivery) error {
	body := make([]byte, d.size)
	if _, err := io.ReadFull(r.Body, body); err != nil || !s.intake.read(d) {
		return &NotTaken{Code: http.StatusBadRequest, Note: "the report has not come whole"}
	}
	c, tag, err := s.takeBody(r, d, body)
	if err != nil {
		return err
	}
	defer s.forget(d.id.Cluster, c) // its pods may all be gone
	s.count.reports.Add(1)
	s.intake.drop(d)
	return s.answer(w, d.id, c, tag)
}

// takeBody has what a body becomes taken, one body after the other.
func (s *Server) takeBody(r *http.Request, d *delivery, body []byte) (c *cluster, tag string, err error) {
	s.intake.taking.Lock()
	defer s.intake.taking.Unlock()
	report, err := readReport(bytes.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	s.mu.Lock()
	c = s.cluster(d.id.Cluster)
	follows := report.Whole || c.reported != "" && r.Header.Get("If-Match") == c.reported
	if follows {
		tag = strconv.Quote(rand.Text())
		c.reported = tag
	}
	s.mu.Unlock()
	if !follows {
		s.forget(d.id.Cluster, c)
		return nil, "", &NotTaken{Code: http.StatusPreconditionFailed, Note: "the report does not follow the last one: send all"}
	}
	if err := s.Reported(d.id, report); err != nil {
		s.sendAll(c)
		s.forget(d.id.Cluster, c)
		return nil, "", err
	}
	return c, tag, nil
}

// sendAll has the next report of a cluster be whole.
func (s *Server) sendAll(c *cluster) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.reported = ""
}

// refuseReport says why, to slurmctld's agent and to the controller.
func (s *Server) refuseReport(w http.ResponseWriter, id Identity, err error) {
	why, is := errors.AsType[*NotTaken](err)
	if !is {
		s.Log.Error("a report is not taken", slog.String("pod", id.Pod), slog.Any("error", err))
		why = &NotTaken{Code: http.StatusInternalServerError, Note: http.StatusText(http.StatusInternalServerError)}
	}
	if n := slices.Index(reasons, why.Reason); n >= 0 {
		s.count.notTaken[n].Add(1)
		if s.NotTaken != nil {
			s.NotTaken(id, why)
		}
	}
	switch why.Code {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "5")
	case http.StatusPreconditionFailed:
	default:
		w.Header().Set("Retry-After", "60")
	}
	http.Error(w, why.Note, why.Code)
}

// readReport reads one value of JSON, and no more nodes than a cluster can have: a node takes 25 times as much in
// memory as its shortest text.
func readReport(from io.Reader) (report wire.Report, err error) {
	d := json.NewDecoder(from)
	err = readObject(d, func(key string) error {
		switch key {
		case "whole":
			return d.Decode(&report.Whole)
		case "nodes":
			return readNodes(d, &report)
		case "conf":
			if err := d.Decode(&report.Conf); err != nil || len(report.Conf) <= mostDigest {
				return err
			}
			return fmt.Errorf("the digest of the configuration has %d bytes at most, not %d", mostDigest, len(report.Conf))
		}
		var skipped json.RawMessage
		return d.Decode(&skipped)
	})
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows it")
		}
	}
	if err == nil {
		err = sortNodes(report.Nodes)
	}
	if why, is := errors.AsType[*NotTaken](err); is {
		return wire.Report{}, why
	}
	if err != nil {
		return wire.Report{}, &NotTaken{http.StatusBadRequest, BadReport, "the report is none: " + err.Error()}
	}
	return report, nil
}

// readObject has each value of an object read.
func readObject(d *json.Decoder, value func(key string) error) error {
	if err := delim(d, json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		if err := value(key.(string)); err != nil { // of an object
			return err
		}
	}
	return delim(d, json.Delim('}'))
}

func readNodes(d *json.Decoder, report *wire.Report) error {
	if err := delim(d, json.Delim('[')); err != nil {
		return err
	}
	for d.More() {
		if len(report.Nodes) >= mostNodes {
			return &NotTaken{http.StatusRequestEntityTooLarge, TooManyNodes, fmt.Sprintf("the report has more than %d nodes, which is the most that Slurm has", mostNodes)}
		}
		var n wire.NodeReport
		if err := d.Decode(&n); err != nil {
			return err
		}
		if err := checkNode(&n); err != nil {
			return err
		}
		report.Nodes = append(report.Nodes, n)
	}
	return delim(d, json.Delim(']'))
}

func delim(d *json.Decoder, want json.Delim) error {
	have, err := d.Token()
	if err == nil && have != want {
		err = fmt.Errorf("want %v", want)
	}
	return err
}

// checkNode bounds what is kept of a node, and has each state be one text.
func checkNode(n *wire.NodeReport) error {
	switch n.State {
	case wire.Idle:
		n.State = wire.Idle
	case wire.Busy:
		n.State = wire.Busy
	case wire.Absent:
		n.State = wire.Absent
	default:
		return fmt.Errorf("%.20q is no state of a node", n.State)
	}
	switch {
	case n.Name == "" || len(n.Name) > mostNodeName:
		return fmt.Errorf("a node's name has 1 to %d bytes, not %d", mostNodeName, len(n.Name))
	case len(n.Drain) > mostDrain:
		return fmt.Errorf("the reason of a drain has %d bytes at most, not %d", mostDrain, len(n.Drain))
	case len(n.Elastic) > mostSet:
		return fmt.Errorf("the name of a node set has %d bytes at most, not %d", mostSet, len(n.Elastic))
	}
	return nil
}

// sortNodes refuses a node that is there twice.
func sortNodes(nodes []wire.NodeReport) error {
	slices.SortFunc(nodes, func(a, b wire.NodeReport) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(nodes); i++ {
		if nodes[i].Name == nodes[i-1].Name {
			return fmt.Errorf("it has the node %q twice", nodes[i].Name)
		}
	}
	return nil
}

// answer says that a report is taken.
func (s *Server) answer(w http.ResponseWriter, id Identity, c *cluster, tag string) error {
	var answer *wire.Answer
	if s.Answer != nil {
		var known bool
		if answer, known = s.Answer(id); !known {
			s.sendAll(c)
			return &NotTaken{Code: http.StatusPreconditionFailed, Note: "this replica does not have the rest: send all"}
		}
	}
	w.Header().Set("ETag", tag)
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	text, err := json.Marshal(answer)
	if err != nil {
		s.Log.Error("cannot encode an answer", slog.Any("error", err))
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // an agent that is gone reports again
	return nil
}
