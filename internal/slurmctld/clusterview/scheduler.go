package clusterview

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/slurmlet/slurmlet/internal/slurm"
)

// readScheduler reads the answer of "sdiag --json", which also names the cluster and Slurm's version.
func readScheduler(from io.Reader) (s *Scheduler, cluster, version string, err error) {
	var answer struct {
		answer
		Statistics map[string]json.RawMessage `json:"statistics"`
	}
	if err := readJSON(from, &answer); err != nil {
		return nil, "", "", err
	}
	if err := answer.err(); err != nil {
		return nil, "", "", err
	}
	if answer.Statistics == nil {
		return nil, "", "", errors.New(`there is no "statistics" in it`)
	}
	r := statistics{fields: answer.Statistics}
	return r.scheduler(), answer.Meta.Slurm.Cluster, answer.Meta.Slurm.Release, r.err
}

// statistics keeps the first fault of its fields.
type statistics struct {
	fields map[string]json.RawMessage
	err    error
}

func (r *statistics) fault(key string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %w", key, err)
	}
}

func (r *statistics) readNumber(key string) int64 {
	var n number
	text, is := r.fields[key]
	if !is {
		r.fault(key, errors.New("there is no such field"))
	} else if err := json.Unmarshal(text, &n); err != nil {
		r.fault(key, err)
	}
	return n.value
}

// micros is in microseconds.
func (r *statistics) micros(key string) time.Duration {
	return time.Duration(r.readNumber(key)) * time.Microsecond
}

func (r *statistics) time(key string) slurm.Time { return slurm.Time(r.readNumber(key)) }

// within are the fields of a field.
func (r *statistics) within(key string) *statistics {
	var inner statistics
	if err := json.Unmarshal(r.fields[key], &inner.fields); err != nil {
		r.fault(key, err)
	}
	return &inner
}

func (r *statistics) scheduler() *Scheduler {
	main, backfill := r.within("schedule_exit"), r.within("bf_exit")
	s := &Scheduler{
		At: r.time("req_time"), Since: r.time("req_time_start"), Threads: r.readNumber("server_thread_count"),
		Agents: r.readNumber("agent_count"), AgentThreads: r.readNumber("agent_thread_count"), AgentQueue: r.readNumber("agent_queue_size"),
		DBDQueue: r.readNumber("dbd_agent_queue_size"), TimeLatency: r.micros("gettimeofday_latency"),
		SchedulerJobs: SchedulerJobs{
			Submitted: r.readNumber("jobs_submitted"), Started: r.readNumber("jobs_started"), Completed: r.readNumber("jobs_completed"),
			Canceled: r.readNumber("jobs_canceled"), Failed: r.readNumber("jobs_failed"),
			Pending: r.readNumber("jobs_pending"), Running: r.readNumber("jobs_running"), StatesAt: r.time("job_states_ts"),
		},
		Main: MainScheduler{
			Cycles: r.readNumber("schedule_cycle_total"), CyclesPerMinute: r.readNumber("schedule_cycle_per_minute"),
			CycleLast: r.micros("schedule_cycle_last"), CycleMax: r.micros("schedule_cycle_max"),
			CycleMean: r.micros("schedule_cycle_mean"), CycleSum: r.micros("schedule_cycle_sum"),
			DepthMean: r.readNumber("schedule_cycle_mean_depth"), DepthSum: r.readNumber("schedule_cycle_depth"),
			QueueLength: r.readNumber("schedule_queue_length"),
			MainExits: MainExits{
				EndOfQueue:        main.readNumber("end_job_queue"),
				DefaultQueueDepth: main.readNumber("default_queue_depth"), Licenses: main.readNumber("licenses"),
				MaxJobStart: main.readNumber("max_job_start"), MaxRPCCount: main.readNumber("max_rpc_cnt"),
				MaxSchedTime: main.readNumber("max_sched_time"),
			},
		},
		Backfill: BackfillScheduler{
			Jobs: r.readNumber("bf_backfilled_jobs"), LastJobs: r.readNumber("bf_last_backfilled_jobs"),
			HetJobs: r.readNumber("bf_backfilled_het_jobs"),
			Active:  string(r.fields["bf_active"]) == "true", Cycles: r.readNumber("bf_cycle_counter"),
			CycleLast: r.micros("bf_cycle_last"), CycleMax: r.micros("bf_cycle_max"),
			CycleMean: r.micros("bf_cycle_mean"), CycleSum: r.micros("bf_cycle_sum"),
			LastCycleAt: r.time("bf_when_last_cycle"), DepthLast: r.readNumber("bf_last_depth"),
			DepthLastTry: r.readNumber("bf_last_depth_try"),
			DepthMean:    r.readNumber("bf_depth_mean"), DepthMeanTry: r.readNumber("bf_depth_mean_try"),
			DepthSum: r.readNumber("bf_depth_sum"), DepthSumTry: r.readNumber("bf_depth_try_sum"),
			QueueLength: r.readNumber("bf_queue_len"), QueueLengthMean: r.readNumber("bf_queue_len_mean"),
			QueueLengthSum: r.readNumber("bf_queue_len_sum"),
			TableSize:      r.readNumber("bf_table_size"), TableSizeMean: r.readNumber("bf_table_size_mean"),
			TableSizeSum: r.readNumber("bf_table_size_sum"),
			BackfillExits: BackfillExits{
				EndOfQueue:  backfill.readNumber("end_job_queue"),
				MaxJobStart: backfill.readNumber("bf_max_job_start"), MaxJobTest: backfill.readNumber("bf_max_job_test"),
				MaxTime: backfill.readNumber("bf_max_time"), NodeSpaceSize: backfill.readNumber("bf_node_space_size"),
				StateChanged: backfill.readNumber("state_changed"),
			},
		},
		RPCs: r.rpcs("rpcs_by_message_type", "message_type"), PendingRPCs: r.rpcs("pending_rpcs", "message_type"),
	}
	r.err = errors.Join(r.err, main.err, backfill.err)
	return s
}

// rpcs is a list, which sdiag leaves out where it is empty (24.11).
func (r *statistics) rpcs(key, name string) []RPC {
	var list []map[string]json.RawMessage
	if text, is := r.fields[key]; !is {
		return nil
	} else if err := json.Unmarshal(text, &list); err != nil {
		r.fault(key, err)
	}
	var all []RPC
	for _, fields := range list {
		one := statistics{fields: fields}
		rpc := RPC{Count: one.readNumber("count")}
		if err := json.Unmarshal(fields[name], &rpc.Name); err != nil {
			r.fault(key, err)
		}
		if _, is := fields["total_time"]; is {
			rpc.Sum = one.micros("total_time")
		}
		if one.err != nil {
			r.fault(key, one.err)
		}
		all = append(all, rpc)
	}
	return all
}

// readStates reads the answer of "squeue --only-job-state --json": the base state and the flags of
// jobs, by their ids. A task is 12_3 there, tasks that wait are 12_[4-9], and a part of a
// heterogeneous job is 12+1; 12 is the job's own id in all of them.
func readStates(from io.Reader) (map[int64]slurm.JobState, error) {
	var answer struct {
		answer
		Jobs []struct {
			ID    string         `json:"job_id"`
			State slurm.JobState `json:"state"`
		} `json:"jobs"`
	}
	if err := readJSON(from, &answer); err != nil {
		return nil, err
	}
	if err := answer.err(); err != nil {
		return nil, err
	}
	if answer.Jobs == nil {
		return nil, errors.New(`there is no list "jobs" in it`)
	}
	states := map[int64]slurm.JobState{}
	for _, j := range answer.Jobs {
		id, _, _ := strings.Cut(strings.ReplaceAll(j.ID, "+", "_"), "_")
		number, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("cannot read job_id=%q", j.ID)
		}
		states[number] = j.State
	}
	return states, nil
}
