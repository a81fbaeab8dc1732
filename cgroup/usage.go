package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Quantity is one of the numbers that the kernel keeps for a cgroup together with all cgroups
// below it. Times are microseconds, sizes are bytes.
type Quantity int

// The quantities. Those up to WriteOperations are counters.
const (
	// CPUTime is CPUUser and CPUSystem together (cpu.stat).
	CPUTime Quantity = iota
	CPUUser
	CPUSystem
	// QuotaPeriods are the periods in which the cgroup ran under a quota of its own (cpu.max),
	// ThrottledPeriods those in which it had used the quota up, and ThrottledTime is how long its
	// run queues stood still then, summed over the CPUs.
	QuotaPeriods
	ThrottledPeriods
	ThrottledTime
	// ThrottledByAny is ThrottledTime by any quota: the cgroup's own and those above it
	// (cpu.stat.local, Linux 6.6).
	ThrottledByAny
	// OOMKills are processes that the kernel has killed for want of memory (memory.events).
	OOMKills
	// Some: at least one thread waited for it. Full: all threads did (PSI).
	CPUSome
	CPUFull
	MemorySome
	MemoryFull
	IOSome
	IOFull
	// Of all block devices together (io.stat).
	ReadBytes
	WrittenBytes
	ReadOperations
	WriteOperations
	counters // how many of the quantities are counters

	MemoryCurrent Quantity = iota - 1
	MemoryPeak
	MemoryAnon
	MemoryFile
	MemoryShmem
	MemoryHigh
	MemoryMax
	SwapCurrent
	SwapMax
	Threads
	ThreadsMax
	quantities
)

// Usage is what the processes of a cgroup use. What the kernel does not report is missing, as are
// limits that are not set.
type Usage struct {
	values [quantities]uint64
	known  uint64
	// disks are what the sums over all block devices are made of.
	disks []disk
}

// disk is what io.stat has of a block device: the quantities from ReadBytes on.
type disk struct {
	number uint64 // major and minor
	values [ioQuantities]uint64
}

const ioQuantities = WriteOperations - ReadBytes + 1

// Get returns a quantity, if it is known.
func (u *Usage) Get(q Quantity) (uint64, bool) { return u.values[q], u.known&(1<<q) != 0 }

func (u *Usage) setValue(q Quantity, value uint64) {
	u.values[q] = value
	u.known |= 1 << q
}

func (u *Usage) sumDisks() {
	for i := range ioQuantities {
		var sum uint64
		for _, d := range u.disks {
			sum += d.values[i]
		}
		u.setValue(ReadBytes+i, sum)
	}
}

// usageFiles are the interface files that Usage is read from (cgroup-v2.rst).
var usageFiles = []struct {
	name string
	read func(u *Usage, text []byte)
}{
	{"cpu.stat", readCPUStat},
	{"cpu.stat.local", keyed(map[string]Quantity{"throttled_usec": ThrottledByAny})},
	{"cpu.pressure", pressure(CPUSome, CPUFull)},
	{"memory.current", single(MemoryCurrent)},
	{"memory.peak", single(MemoryPeak)},
	{"memory.stat", keyed(map[string]Quantity{"anon": MemoryAnon, "file": MemoryFile, "shmem": MemoryShmem})},
	{"memory.high", single(MemoryHigh)},
	{"memory.max", single(MemoryMax)},
	{"memory.swap.current", single(SwapCurrent)},
	{"memory.swap.max", single(SwapMax)},
	{"memory.events", keyed(map[string]Quantity{"oom_kill": OOMKills})},
	{"memory.pressure", pressure(MemorySome, MemoryFull)},
	{"io.stat", readIOStat},
	{"io.pressure", pressure(IOSome, IOFull)},
	{"pids.current", single(Threads)},
	{"pids.max", single(ThreadsMax)},
}

// UsageReader reads what cgroups use. It reads interface files of the cgroups that it is asked
// for, and nothing below them, where a user may have made cgroups. It is for one goroutine at
// a time.
type UsageReader struct {
	fs     FS
	buffer [mostUsage]byte
	jobs   map[string]string // the numbers of jobs, by the names of their cgroups
}

// mostUsage is how long an interface file may be, in bytes. A longer one does not count: io.stat
// has a line for each block device, and 64 KiB are some 500 of them.
const mostUsage = 64 << 10

// NewUsageReader returns a reader without cgroups.
func (f FS) NewUsageReader() *UsageReader { return &UsageReader{fs: f, jobs: map[string]string{}} }

// read returns what a cgroup uses, and which one it is: the kernel gives no number twice.
func (r *UsageReader) read(dir string) (u Usage, inode uint64, err error) {
	fd, err := openDir(filepath.Join(r.fs.root, dir))
	if err != nil {
		return Usage{}, 0, err
	}
	defer unix.Close(fd)
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return Usage{}, 0, fmt.Errorf("cannot read %s: %w", dir, err)
	}
	for _, file := range usageFiles {
		if text := r.readFile(fd, file.name); text != nil {
			file.read(&u, text)
		}
	}
	return u, is.Ino, nil
}

// openDir opens a cgroup for its files. It follows no symbolic link in the cgroup's place.
func openDir(path string) (int, error) {
	for {
		fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err == nil {
			return fd, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return -1, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// readFile returns the text of an interface file, until the next call. It is nil where there is none,
// or one that cannot be read or is too long: a controller is off, or the kernel is older.
func (r *UsageReader) readFile(dir int, name string) []byte {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	for n := 0; n < len(r.buffer); {
		more, err := unix.Read(fd, r.buffer[n:])
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return nil
		case more == 0:
			return r.buffer[:n]
		default:
			n += more
		}
	}
	return nil
}

// Meter reads one cgroup's usage again and again. Its counters never fall: what a cgroup has
// counted that was replaced by another of its name, or a block device that has gone, or a
// controller that was switched off and on, stays in the sum.
type Meter struct {
	reader *UsageReader
	inode  uint64
	// last is what the kernel has reported, before what it had counted earlier.
	last   [counters]uint64
	before [counters]uint64
	disks  map[uint64][ioQuantities]uint64
}

// NewMeter returns a meter that has read nothing.
func (r *UsageReader) NewMeter() *Meter {
	return &Meter{reader: r, disks: map[uint64][ioQuantities]uint64{}}
}

// Read returns the usage of the cgroup that is now in dir, below FS's root.
func (m *Meter) Read(dir string) (Usage, error) {
	u, inode, err := m.reader.read(dir)
	if err != nil {
		return Usage{}, err
	}
	if inode != m.inode {
		m.replace()
		m.inode = inode
	}
	for q := range ReadBytes {
		if value, known := u.Get(q); known {
			u.setValue(q, m.sum(q, value))
		}
	}
	if _, known := u.Get(ReadBytes); known {
		m.readDisks(&u)
	}
	return u, nil
}

func (m *Meter) sum(q Quantity, value uint64) uint64 {
	if value < m.last[q] {
		m.before[q] += m.last[q]
	}
	m.last[q] = value
	return m.before[q] + value
}

// readDisks keeps what devices have counted that are not there any more.
func (m *Meter) readDisks(u *Usage) {
	now := make(map[uint64][ioQuantities]uint64, len(u.disks))
	for _, d := range u.disks {
		now[d.number] = d.values
	}
	for number, last := range m.disks {
		for i, value := range now[number] { // zeros if it has gone
			if value < last[i] {
				m.before[ReadBytes+Quantity(i)] += last[i]
			}
		}
	}
	m.disks = now
	for q := ReadBytes; q < counters; q++ {
		value, _ := u.Get(q)
		u.setValue(q, m.before[q]+value)
	}
}

func (m *Meter) replace() {
	for q, last := range m.last {
		m.before[q] += last
	}
	for _, last := range m.disks {
		for i, value := range last {
			m.before[ReadBytes+Quantity(i)] += value
		}
	}
	m.last = [counters]uint64{}
	clear(m.disks)
}
