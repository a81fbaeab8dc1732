package process

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unixAddress is the length of a unix socket's address where a program passes all of the structure (unix(7)), as C programs do. No
// other family has one of that length: IPv4's has 16 bytes, IPv6's 28, and what holds either 128.
const unixAddress = unix.SizeofSockaddrUnix

// disconnect makes connect(2) fail with ENETUNREACH on this thread and in all that it starts, but for unix sockets, by seccomp(2),
// which takes no privilege. There is no way back: the thread must end with what it has started.
//
// A filter sees numbers and not what they point to, so it goes by the length of the address. It keeps a daemon that means well from
// the network, with a system call of the machine's own kind; it is no wall around a program that does not.
func disconnect() error {
	const nr, length = 0, 16 + 2*8 // offsets in struct seccomp_data; the lower half of the third argument, on little-endian machines
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nr},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_CONNECT, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: length},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unixAddress, Jt: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENETUNREACH)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot keep it from the network: %w", err)
	}
	return nil
}
