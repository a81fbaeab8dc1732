// Package agent runs one Slurm container, from its start as PID 1 to its orderly end.
//
// docs/reference has the behaviour in detail: a page for each subject, and generated pages of the
// settings, the metrics, and the labels and annotations. This comment explains the model.
//
// # What an agent is
//
// A container has one main process, a daemon of Slurm. The agent is the container's PID 1. It starts
// the main process, says when the container is Ready, follows the daemon through its reconfigures,
// and ends it. In slurmd's pod the container is a Slurm node, too: slurmctld has a record of it, and
// the agent answers for that record. In slurmctld's pod the agent also answers for slurm.conf.
//
// A role is one row of a table (roles.go). The row says what the role's daemon is, which user runs it,
// what it must reach before its start, and who confirms that it serves:
//
//	role        main process  it starts when              it is Ready when
//	slurmctld   slurmctld     its configuration is there  slurmctld answers a ping
//	slurmd      slurmd        slurmctld's port answers    slurmctld's record of the node is right
//	login       sackd         slurmctld's port answers    sackd, sshd and sssd serve
//	slurmdbd    slurmdbd      its database lets it in     it takes connections
//	slurmrestd  slurmrestd    at once                     it takes connections
//
// sshd and sssd are services beside a main process. Their end is no end of the container.
//
// # The loop
//
// One goroutine, the owner, has the state (own in loop.go). Whatever happens in the world becomes an
// event. The owner gives the state and the event to a pure function, which returns the next state
// and actions. The owner does the actions, and what becomes of them is an event again:
//
//	signals, exits, sd_notify(3) ─┐                       ┌─ start and signal the main process
//	answers of slurmctld ─────────┤                       ├─ ask slurmctld, change the record
//	files, limits, steps' ends ───┼→ event → Step → state ┼─ check, place and spread a configuration
//	the peers' stream ────────────┤               actions ├─ warn and end sessions
//	timers, deadlines ────────────┘                       └─ arm a timer, exit
//
// lifecycle.Step reads no clock, opens no file and draws no random number. So a test can play any
// story, and FuzzStep plays random ones. internal/lifecycle/testdata has the stories that matter, as
// transcripts of events and actions.
//
// Everything else runs in goroutines of its own: the HTTP port, the watches of files, the stream of
// the peers, the collection of what the cluster does. None of them touches the state. They post
// events, and read the status, which the owner publishes after each event (status.go).
//
// # Machines
//
// The state is that of four machines in internal/lifecycle. A role without a part in one has a
// machine at rest:
//
//   - supervisor is the main process of every role: its phase, what is waited for, its starts and
//     its end.
//   - node is the Slurm node: its size, its record, the jobs that hold it, the way out of service.
//   - conf is slurmctld's configuration, from an edit to the last good set.
//   - sessions is the end of a login pod's sessions.
//
// deadlines is the time that is left after SIGTERM. Only the supervisor is known to the others. conf
// knows slurmctld as a value, and gives it orders.
//
// # Phases
//
//	Starting   there is no main process yet, or it is not confirmed
//	Ready      the daemon does its work
//	Reloading  the daemon has executed itself anew, and its successor is being looked at
//	Resizing   the pod has another size than the record, which must be free of jobs to follow
//	Stopping   SIGTERM has come
//	Exited     the container ends
//
// Kubernetes' probes follow from the phase. /livez says that the agent runs, /startupz that the
// container has been Ready once, and /readyz that it is Ready, Reloading or Resizing: a node that is
// resized runs its jobs to their end, and their host names must resolve meanwhile.
//
// Within a phase the container does one thing at a time: an Activity (supervisor/activity.go), such
// as Reaching, Launching, Confirming, Leaving, Draining or Finishing. An activity waits for one answer
// or one timer, whose number it knows. An answer with an older number is about the past, and changes
// nothing.
//
// # A node's life
//
// slurmd registers the node with the size that the pod was given. Then the agent asks slurmctld for
// the record, because slurmd is told "success" even when slurmctld rejects the registration. A right
// record makes the container Ready. A record of another size is left: the agent drains it, waits for
// its jobs, deletes it, and has slurmd register anew. A resize in place goes the same way.
//
// After SIGTERM the node goes out of service. The agent drains it, waits for its jobs, deletes the
// record, stops slurmd, and exits. It learns of the end of a step from the kernel, and asks slurmctld
// then. A node is in service from slurmd's READY until slurmctld has deleted its record, whatever
// becomes of slurmd meanwhile. scontrol gets its credentials from slurmd, so the agent starts a slurmd
// that has died, and a sackd in its place where slurmd cannot be had.
//
// A job that outlives its time is requeued, or ends as NODE_FAIL, at a deadline. The deadlines divide
// the grace period. A shorter notice brings them forward, and nothing puts one off.
//
// The record of an elastic node stays when its pod goes. slurmctld suspends such a node instead.
//
// # slurmctld's configuration
//
// slurmctld reads a directory that the agent writes, and nobody else. All files that people edit are
// one set. The agent checks a new set, waits until slurmctld has sent the launches that are under way,
// puts the set in place, has slurmctld reconfigure, and asks which nodes have followed. If most of
// those that answer have, the set becomes the last good one. If any step fails, the last good set
// comes back. The agents of the other containers ask slurmctld's agent for the hashes of the live set,
// and restart a daemon that has missed it.
//
// # Agents among each other
//
// Many agents may want the same of slurmctld at the same time. A node's agent asks slurmctld's agent
// (internal/link), which makes one command of many requests. It proves with a key of auth/slurm that
// it belongs to the cluster. Where slurmctld's agent is away, refuses, or says nothing, the node's
// agent asks slurmctld itself. Nothing that protects a job depends on another agent, or on slurmlet's
// controller.
//
// # Promises
//
// FuzzStep holds these for every story:
//
//   - There is one main process at a time, and no signal goes to a process that was reaped.
//   - Ready implies a main process that lives.
//   - Every way from SIGTERM leads to Exited.
//   - A job ends only at its deadline. Until then the node waits.
//   - A drain that somebody else has set stays. The agent lifts its own drains alone.
//   - Only a set that was checked is ever live.
//   - Something will happen next: a question is open, a timer runs, or nothing is waited for.
//
// These hold in the shell, too, where tests with real Slurm look for them:
//
//   - Silence is no answer. A slurmctld that says nothing has drained nothing, deleted nothing and
//     refused nothing. The agent asks again, after pauses that grow.
//   - A Ready node without steps asks nothing. An agent has one question in flight, and asks no more
//     than 45 times in a minute of any trouble that TestBudget plays (node.MostQuestions).
//   - No record is deleted while a job holds its node, or while somebody names it.
//   - A stranger on the port costs a bounded number of bytes and no goroutine, and learns no more
//     than SECURITY.md says.
//   - A log that nobody reads stops nothing. Lines that do not fit are counted.
//
// # Settings and exit statuses
//
// Environment variables set everything (variables.go, config.go). Run's caller has read them with
// FromEnv, which names all faults at once. Another variable that begins with SLURMLET_ is a fault. The
// variables that Kubernetes makes of Services (…_SERVICE_HOST, …_PORT_6817_TCP and so on) are none of
// the agent's. Package exitcode has the exit statuses. If slurmd ends by itself, the container goes
// on: the job steps live on, and the agent starts a new slurmd, which takes them over. It starts
// sackd, slurmdbd, slurmrestd and a crashed slurmctld again, too.
//
// # Where to read on
//
//	docs/design/README.md     the rooms, and which package may import which
//	docs/design/walks.md      six walks through the code, with diagrams
//	docs/design/decisions     why, by area
//	docs/reference            the behaviour in detail, and generated tables
//	internal/lifecycle        the state, the events and the actions
package agent
