// Package savedstate looks after what slurmctld saves (slurm.conf(5), StateSaveLocation). slurmctld saves jobs up to
// five seconds after it has acknowledged them. One that is killed forgets those that came after the last save: when it
// starts again, it gives their ids to other jobs, and deletes their scripts.
//
// Only one slurmctld may use a directory (Lock). Before each start, Prepare finds out whether the last slurmctld has
// ended in order. After any other end it keeps the scripts that slurmctld is about to delete, and says from which id on
// slurmctld may give ids. When slurmctld serves, Judge finds the jobs that it has lost.
//
// All files are in the directory "slurmlet" in StateSaveLocation:
//
//	lock       is locked as long as an agent lives, and says which one
//	saved      slurmctld has ended in order, and has not been started since
//	first-id   the id from which on slurmctld gives ids
//	heard      the jobs that the agent had heard of when slurmctld crashed last
//	lost/ID/   a lost job: job.json, script, environment
//
// # What a second slurmctld would need
//
// One agent waits for the other's end already, in Prepare, before it starts its slurmctld (reconfig.takeState). A
// fail-over between machines goes through the same place, and needs what is missing there:
//
//   - An arbiter between machines. flock(2) holds on file systems of one machine alone, and on others Prepare goes on
//     without a lock. The arbiter must also have ended the other slurmctld before it lets the next one begin: a machine
//     that is cut off still writes.
//   - The configuration as it is then. takeState gets the set that was checked before the wait. The last good set is in
//     SLURMLET_STATE_DIR of each container, and no part of StateSaveLocation.
//   - What the first agent has heard. The file heard is written when that agent sees slurmctld's end, so a machine that
//     is lost takes it along. Judge then has the saved state and the directories of jobs, and the margin of ids for jobs
//     without one.
//   - The way to the one that serves. Nodes' agents try the hosts of SLURMLET_CONTROLLER in turn (internal/link), so an
//     agent that waits must not answer as one that serves. The chart has one host and one pod.
//
// Everything happens below StateSaveLocation (os.Root), which belongs to a user whom root must not trust.
package savedstate
