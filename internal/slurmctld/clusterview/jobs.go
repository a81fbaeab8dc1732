package clusterview

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/link/wire"
	"github.com/slurmlet/slurmlet/internal/slurm"
)

// jobFields are the columns that squeue is asked for (squeue(1), --Format). With --json squeue
// has all flags of a state besides, and takes 150 kB of memory for each job, where it takes 2 kB
// with these.
var jobFields = []string{
	"JobID", "ArrayJobID", "ArrayTaskID", "HetJobID", "UserName", "UserID", "Account", "QOS", "Partition", "State",
	"Reason", "PriorityLong",
	"SubmitTime", "EligibleTime", "StartTime", "EndTime", "TimeLimit", "NumNodes", "MaxNodes", "NumCPUs",
	"tres-alloc", "tres-per-job", "tres-per-node", "tres-per-task", "NumTasks",
	"RestartCnt", "NodeList", "Feature", "Reservation", "Licenses", "Comment", "Name",
}

// The columns' places.
const (
	colJobID = iota
	colArrayJobID
	colArrayTaskID
	colHetJobID
	colUserName
	colUserID
	colAccount
	colQOS
	colPartition
	colState
	colReason
	colPriority
	colSubmit
	colEligible
	colStart
	colEnd
	colTimeLimit
	colNodes
	colMaxNodes
	colCPUs
	colTRES
	colTRESPerJob
	colTRESPerNode
	colTRESPerTask
	colTasks
	colRestarts
	colNodeList
	colFeatures
	colReservation
	colLicenses
	colComment
	colName
)

// jobFormat is squeue's --Format with an end for each column. Names of jobs are texts of their
// users', so the end is one that nobody can know before.
func jobFormat(end string) string {
	return strings.Join(jobFields, ":"+end+",") + ":" + end
}

// longestColumn bounds a column. An array's list of tasks may be long.
const longestColumn = 32 << 20

// readJobs reads the answer of squeue, whose columns end with end.
func readJobs(from io.Reader, end string) (*packer, error) {
	in := bufio.NewScanner(from)
	in.Buffer(make([]byte, 0, 64<<10), longestColumn)
	in.Split(columnsEndingWith([]byte(end)))
	p := newPacker()
	var text []byte // of one job's columns, which end at ends
	ends := make([]int, 0, len(jobFields))
	columns := make([]string, len(jobFields))
	for in.Scan() {
		text = append(text, in.Bytes()...)
		if ends = append(ends, len(text)); len(ends) < len(columns) {
			continue
		}
		line, begin := string(text), 0
		for i, end := range ends {
			columns[i], begin = line[begin:end], end
		}
		j, err := jobOf(columns)
		if err != nil {
			return nil, err
		}
		p.add(&j)
		text, ends = text[:0], ends[:0]
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	if len(ends) > 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return p, nil
}

// columnsEndingWith splits where end is. The end of a line follows the last one.
func columnsEndingWith(end []byte) bufio.SplitFunc {
	return func(data []byte, atEOF bool) (int, []byte, error) {
		if i := bytes.Index(data, end); i >= 0 {
			return i + len(end), data[:i], nil
		}
		if atEOF && len(data) > 0 && string(data) != "\n" {
			return 0, nil, io.ErrUnexpectedEOF
		}
		return 0, nil, nil
	}
}

// jobOf reads one job. All lines but the first follow another one's end.
func jobOf(columns []string) (j slurm.Job, err error) {
	var r columnReader
	j.ID = r.readNumber("JobID", strings.TrimPrefix(columns[colJobID], "\n"))
	r.job = j.ID
	if tasks := columns[colArrayTaskID]; tasks != none {
		j.ArrayID = r.readNumber("ArrayJobID", columns[colArrayJobID])
		j.ArrayTask = shorten(tasks)
		j.Tasks = r.tasks(tasks)
	} else {
		j.Tasks = 1
	}
	if het := columns[colHetJobID]; het != none {
		j.HetID = r.readNumber("HetJobID", het)
	}
	j.Name, j.User, j.UID = columns[colName], columns[colUserName], r.uid(columns[colUserID])
	j.Account, j.QOS = known(columns[colAccount]), known(columns[colQOS])
	j.Partitions = split(known(columns[colPartition]))
	j.State = r.state(columns[colState])
	j.Reason = known(columns[colReason])
	if j.Reason == "None" {
		j.Reason = ""
	}
	j.Priority = r.readNumber("PriorityLong", columns[colPriority])
	j.Held = j.Priority == 0 && j.State.Pending()
	j.Submit, j.Eligible = r.time("SubmitTime", columns[colSubmit]), r.time("EligibleTime", columns[colEligible])
	j.Start, j.End = r.time("StartTime", columns[colStart]), r.time("EndTime", columns[colEnd])
	j.TimeLimit = r.duration("TimeLimit", columns[colTimeLimit])
	j.Nodes, j.CPUs = int(r.readNumber("NumNodes", columns[colNodes])), int(r.readNumber("NumCPUs", columns[colCPUs]))
	j.MaxNodes = int(r.readNumber("MaxNodes", columns[colMaxNodes]))
	j.Restarts = int(r.readNumber("RestartCnt", columns[colRestarts]))
	j.Memory = r.memory(columns[colTRES])
	j.GPUs = r.gpus(columns, j.Nodes)
	j.NodeList, j.Features = known(columns[colNodeList]), known(columns[colFeatures])
	j.Reservation, j.Licenses = known(columns[colReservation]), known(columns[colLicenses])
	_, j.Pods = wire.GroupOf(columns[colComment])
	return j, r.err
}

// none is what squeue writes for a number that there is not.
const none = "N/A"

// known is empty for what squeue writes where there is no text.
func known(text string) string {
	if text == "(null)" || text == none {
		return ""
	}
	return text
}

// columnReader keeps the first fault of a job's columns.
type columnReader struct {
	job int64
	err error
}

func (r *columnReader) fault(column, text string) {
	if r.err == nil {
		r.err = fmt.Errorf("job %d: cannot read %s=%q", r.job, column, shorten(text))
	}
}

func (r *columnReader) readNumber(column, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		r.fault(column, text)
	}
	return n
}

// uid: a command that takes it for a signed number prints a large one as a negative one.
func (r *columnReader) uid(text string) int {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		r.fault("UserID", text)
	}
	return int(uint32(n)) //nolint:gosec // as above
}

// time: SLURM_TIME_FORMAT=%s makes it seconds since 1970.
func (r *columnReader) time(column, text string) slurm.Time {
	if text == none || text == "NONE" || text == "Unknown" {
		return 0
	}
	return slurm.Time(r.readNumber(column, text))
}

// duration reads days-hours:minutes:seconds, whose first parts may be left out.
func (r *columnReader) duration(column, text string) time.Duration {
	switch text {
	case "UNLIMITED", "NOT_SET", "INVALID", "Partition_Limit", none:
		return 0
	}
	days, clock, found := strings.Cut(text, "-")
	if !found {
		days, clock = "0", text
	}
	seconds := r.readNumber(column, days)
	for i, part := range strings.Split(clock, ":") {
		unit := int64(60)
		if i == 0 {
			unit = 24 // of the hours, if there are three parts
		}
		if i == 0 && strings.Count(clock, ":") < 2 {
			unit = 1 // days are 0
		}
		seconds = seconds*unit + r.readNumber(column, part)
	}
	return time.Duration(seconds) * time.Second
}

func (r *columnReader) state(text string) slurm.JobState {
	state := slurm.ParseJobState(text)
	if state == nil {
		r.fault("State", text)
	}
	return state
}

// tasks counts an array's tasks: "7", "1-9,12%3" or "1-21:2,40".
func (r *columnReader) tasks(text string) (count int) {
	list, _, _ := strings.Cut(text, "%")
	for one := range strings.SplitSeq(list, ",") {
		span, step, stepped := strings.Cut(one, ":")
		first, last, is := strings.Cut(span, "-")
		if !is {
			last = first
		}
		by := int64(1)
		if stepped {
			by = max(r.readNumber("ArrayTaskID", step), 1)
		}
		from, to := r.readNumber("ArrayTaskID", first), r.readNumber("ArrayTaskID", last)
		if to < from {
			r.fault("ArrayTaskID", text)
		}
		count += int((to-from)/by) + 1
	}
	return count
}

// memory is that of a list of TRES: "cpu=1,mem=10M,node=1".
func (r *columnReader) memory(tres string) int64 {
	text := tresOf(tres, "mem")
	if text == "" {
		return 0
	}
	memory, err := parseMemory(text)
	if err != nil {
		r.fault("tres-alloc", tres)
	}
	return memory
}

// tresOf is the value of one of a list; empty where it is not in it.
func tresOf(list, name string) string {
	for one := range strings.SplitSeq(list, ",") {
		if key, value, _ := strings.Cut(one, "="); key == name {
			return value
		}
	}
	return ""
}

// gpus is how many GPUs a job has or wants. Slurm counts gres/gpu among the TRES only with
// slurmdbd (AccountingStorageTRES).
func (r *columnReader) gpus(columns []string, nodes int) int {
	if text := tresOf(columns[colTRES], "gres/gpu"); text != "" {
		return int(r.readNumber("tres-alloc", text))
	}
	for _, want := range []struct{ column, times int }{{colTRESPerJob, 1}, {colTRESPerNode, nodes}, {colTRESPerTask, r.tasksOf(columns)}} {
		text := known(columns[want.column])
		if !strings.Contains(text, "gpu") {
			continue
		}
		// The user has written it. What slurmctld may read otherwise is no fault of the answer.
		count, err := gpus(strings.ReplaceAll(strings.ReplaceAll(text, "gres/", ""), "gres:", ""))
		if err == nil && count > 0 {
			return count * want.times
		}
	}
	return 0
}

// tasksOf is how many tasks a job has: 1 where slurmctld does not know (NO_VAL of slurm.h).
func (r *columnReader) tasksOf(columns []string) int {
	const unknown = 1<<32 - 2
	n := r.readNumber("NumTasks", columns[colTasks])
	if n >= unknown {
		return 1
	}
	return int(n)
}

// parseMemory reads "10M" or "1.50G", in MiB, which is also what a number without a unit is in.
func parseMemory(text string) (int64, error) {
	unit := 1.0
	if i := strings.IndexByte("KMGTP", text[len(text)-1]); i >= 0 {
		unit, text = math.Ldexp(1, 10*(i-1)), text[:len(text)-1]
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n < 0 {
		return 0, errors.New("want a number of MiB")
	}
	return int64(n * unit), nil
}

// longestTasks is how much of an array's list of tasks is kept, as squeue(1) shows it.
const longestTasks = 64

func shorten(text string) string {
	if len(text) <= longestTasks {
		return text
	}
	return strings.ToValidUTF8(text[:longestTasks], "") + "..."
}
