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
// Everything happens below StateSaveLocation (os.Root), which belongs to a user whom root must not trust.
package savedstate
