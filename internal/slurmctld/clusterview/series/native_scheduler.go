package series

import (
	"github.com/slurmlet/slurmlet/internal/slurmctld/clusterview"
)

// nativeScheduler are sdiag's. The counts begin anew when somebody resets them, and at midnight UTC.
var nativeScheduler = []metric[clusterview.Scheduler]{
	{"agent_cnt", "Agents of slurmctld, which send messages to nodes", func(s *clusterview.Scheduler) float64 { return float64(s.Agents) }},
	{
		"agent_queue_size", "Messages of slurmctld to nodes that wait for one of slurmctld's own agents",
		func(s *clusterview.Scheduler) float64 { return float64(s.AgentQueue) },
	},
	{"agent_thread_cnt", "Threads of all agents", func(s *clusterview.Scheduler) float64 { return float64(s.AgentThreads) }},
	{
		"backfilled_het_jobs", "Parts of heterogeneous jobs that backfill has started since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.HetJobs) },
	},
	{
		"backfilled_jobs", "Jobs that backfill has started since slurmctld began",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.Jobs) },
	},
	{"bf_active", "1 while backfill runs", func(s *clusterview.Scheduler) float64 { return truth(s.Backfill.Active) }},
	{
		"bf_cycle_cnt", "Cycles of backfill since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.Cycles) },
	},
	{
		"bf_cycle_last", "How long the last cycle of backfill took, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return s.Backfill.CycleLast.Seconds() },
	},
	{
		"bf_cycle_max", "How long the longest cycle of backfill took, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return s.Backfill.CycleMax.Seconds() },
	},
	{
		"bf_cycle_tot", "How long all cycles of backfill took, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return s.Backfill.CycleSum.Seconds() },
	},
	{
		"bf_depth_mean", "Jobs that a cycle of backfill looked at, on average (Slurm's own value is rounded down)",
		func(s *clusterview.Scheduler) float64 { return ratio(float64(s.Backfill.DepthSum), s.Backfill.Cycles) },
	},
	{
		"bf_depth_tot", "Jobs that all cycles of backfill looked at",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthSum) },
	},
	{
		"bf_depth_try_tot", "Jobs that all cycles of backfill tried to start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthSumTry) },
	},
	{
		"bf_exit_end", "Cycles of backfill that ended because they had looked at all jobs",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.EndOfQueue) },
	},
	{
		"bf_exit_max_job_start", "Cycles of backfill that ended because of bf_max_job_start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.MaxJobStart) },
	},
	{
		"bf_exit_max_job_test", "Cycles of backfill that ended because of bf_max_job_test",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.MaxJobTest) },
	},
	{
		"bf_exit_state_changed", "Cycles of backfill that ended because nodes, partitions or jobs changed",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.StateChanged) },
	},
	{
		"bf_exit_table_limit", "Cycles of backfill that ended because of bf_node_space_size",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.NodeSpaceSize) },
	},
	{
		"bf_exit_timeout", "Cycles of backfill that ended because of bf_max_time",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.BackfillExits.MaxTime) },
	},
	{
		"bf_last_depth", "Jobs that the last cycle of backfill looked at",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthLast) },
	},
	{
		"bf_last_depth_try", "Jobs that the last cycle of backfill tried to start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.DepthLastTry) },
	},
	{
		"bf_mean_cycle",
		"How long a cycle of backfill took on average, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return ratio(s.Backfill.CycleSum.Seconds(), s.Backfill.Cycles) },
	},
	{
		"bf_mean_table_sz", "Time slots that a cycle of backfill tested, on average (Slurm's own value is rounded down)",
		func(s *clusterview.Scheduler) float64 {
			return ratio(float64(s.Backfill.TableSizeSum), s.Backfill.Cycles)
		},
	},
	{
		"bf_queue_len", "Jobs that waited for the last cycle of backfill",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.QueueLength) },
	},
	{
		"bf_queue_len_mean", "Jobs that waited for a cycle of backfill, on average (Slurm's own value is rounded down)",
		func(s *clusterview.Scheduler) float64 {
			return ratio(float64(s.Backfill.QueueLengthSum), s.Backfill.Cycles)
		},
	},
	{
		"bf_queue_len_tot", "Jobs that waited for all cycles of backfill, added up",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.QueueLengthSum) },
	},
	{
		"bf_table_size", "Time slots that the last cycle of backfill tested",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.TableSize) },
	},
	{
		"bf_table_size_tot", "Time slots that all cycles of backfill tested",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.TableSizeSum) },
	},
	{
		"bf_try_depth_mean",
		"Jobs that a cycle of backfill tried to start, on average (Slurm's own value is rounded down)",
		func(s *clusterview.Scheduler) float64 {
			return ratio(float64(s.Backfill.DepthSumTry), s.Backfill.Cycles)
		},
	},
	{
		"bf_when_last_cycle", "When the last cycle of backfill began",
		func(s *clusterview.Scheduler) float64 { return stamp(s.Backfill.LastCycleAt) },
	},
	{
		"last_backfilled_jobs", "Jobs that backfill has started since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.Backfill.LastJobs) },
	},
	{"last_proc_req_start", "When the counts of sdiag were last reset", func(s *clusterview.Scheduler) float64 { return stamp(s.Since) }},
	{
		"sched_exit_end", "Cycles of the main scheduler that ended because they had looked at all jobs",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.EndOfQueue) },
	},
	{
		"sched_exit_lic", "Cycles of the main scheduler that ended because licenses blocked",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.Licenses) },
	},
	{
		"sched_exit_max_depth", "Cycles of the main scheduler that ended because of default_queue_depth",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.DefaultQueueDepth) },
	},
	{
		"sched_exit_max_job_start", "Cycles of the main scheduler that ended because of sched_max_job_start",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.MaxJobStart) },
	},
	{
		"sched_exit_rpc_cnt", "Cycles of the main scheduler that ended because of max_rpc_cnt",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.MaxRPCCount) },
	},
	{
		"sched_exit_timeout", "Cycles of the main scheduler that ended because of max_sched_time",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.MainExits.MaxSchedTime) },
	},
	{
		"sched_mean_cycle",
		"How long a cycle of the main scheduler took on average, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return ratio(s.Main.CycleSum.Seconds(), s.Main.Cycles) },
	},
	{
		"sched_mean_depth_cycle",
		"Jobs that a cycle of the main scheduler looked at, on average (Slurm's own value is rounded down)",
		func(s *clusterview.Scheduler) float64 { return ratio(float64(s.Main.DepthSum), s.Main.Cycles) },
	},
	{"sched_stats_timestamp", "When slurmctld told these values of sdiag", func(s *clusterview.Scheduler) float64 { return stamp(s.At) }},
	{
		"schedule_cycle_cnt", "Cycles of the main scheduler since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.Cycles) },
	},
	{
		"schedule_cycle_depth", "Jobs that all cycles of the main scheduler looked at",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.DepthSum) },
	},
	{
		"schedule_cycle_last",
		"How long the last cycle of the main scheduler took, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return s.Main.CycleLast.Seconds() },
	},
	{
		"schedule_cycle_max",
		"How long the longest cycle of the main scheduler took, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return s.Main.CycleMax.Seconds() },
	},
	{
		"schedule_cycle_tot",
		"How long all cycles of the main scheduler took, in seconds (Slurm's own value is in microseconds)",
		func(s *clusterview.Scheduler) float64 { return s.Main.CycleSum.Seconds() },
	},
	{
		"schedule_queue_len", "Jobs that waited for the main scheduler",
		func(s *clusterview.Scheduler) float64 { return float64(s.Main.QueueLength) },
	},
	{
		"sdiag_job_states_ts", "When slurmctld counted the jobs of sdiag",
		func(s *clusterview.Scheduler) float64 { return stamp(s.SchedulerJobs.StatesAt) },
	},
	{
		"sdiag_jobs_canceled", "Jobs canceled since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Canceled) },
	},
	{
		"sdiag_jobs_completed", "Jobs completed since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Completed) },
	},
	{
		"sdiag_jobs_failed", "Jobs failed since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Failed) },
	},
	{
		"sdiag_jobs_pending", "Jobs pending, as slurmctld counted them at slurm_sdiag_job_states_ts",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Pending) },
	},
	{
		"sdiag_jobs_running", "Jobs running, as slurmctld counted them at slurm_sdiag_job_states_ts",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Running) },
	},
	{
		"sdiag_jobs_started", "Jobs started since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Started) },
	},
	{
		"sdiag_jobs_submitted", "Jobs submitted since the last reset",
		func(s *clusterview.Scheduler) float64 { return float64(s.SchedulerJobs.Submitted) },
	},
	{
		"sdiag_latency",
		"How long 1,000 calls of gettimeofday took when slurmctld began, in seconds (Slurm's own value is in " +
			"microseconds)", func(s *clusterview.Scheduler) float64 { return s.TimeLatency.Seconds() },
	},
	{
		"server_thread_cnt", "Threads of slurmctld that work on requests",
		func(s *clusterview.Scheduler) float64 { return float64(s.Threads) },
	},
	{"slurmdbd_queue_size", "Messages that wait for slurmdbd", func(s *clusterview.Scheduler) float64 { return float64(s.DBDQueue) }},
}
