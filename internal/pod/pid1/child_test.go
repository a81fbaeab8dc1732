package pid1

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"testing"
)

// childCode exits with the first byte of its first argument as the code. With a second argument it forks: the child does that,
// the parent exits 0 at once.
var childCode = []byte{
	0x83, 0x3c, 0x24, 0x03, // cmpl  $3, (%rsp)      argc
	0x7c, 0x0f, //             jl    leave
	0xb8, 0x39, 0, 0, 0, //    movl  $57, %eax       fork
	0x0f, 0x05, //             syscall
	0x85, 0xc0, //             testl %eax, %eax
	0x74, 0x04, //             jz    leave
	0x31, 0xff, //             xorl  %edi, %edi
	0xeb, 0x08, //             jmp   exit
	0x48, 0x8b, 0x7c, 0x24, 0x10, // leave: movq 16(%rsp), %rdi   argv[1]
	0x0f, 0xb6, 0x3f, //             movzbl (%rdi), %edi
	0xb8, 0x3c, 0, 0, 0, //    exit: movl  $60, %eax              exit
	0x0f, 0x05, //                   syscall
}

// childProgram is the cheapest program there is: one page, no loader, no library, so that a test can run it 100,000 times.
func childProgram(tb testing.TB) []byte {
	if runtime.GOARCH != "amd64" {
		tb.Skip("the child is written in amd64 machine code")
	}
	const base, headers = 0x400000, 64 + 56
	size := uint64(headers + len(childCode))
	file := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT),
		Entry: base + headers, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	segment := elf.Prog64{
		Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X),
		Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000,
	}
	var program bytes.Buffer
	for _, part := range []any{file, segment, childCode} {
		if err := binary.Write(&program, binary.LittleEndian, part); err != nil {
			tb.Fatal(err)
		}
	}
	return program.Bytes()
}
