//go:build linux

package stacks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is a process whose memory is read.
type process struct {
	*program
	pid  int
	bias uint64 // the distance of its addresses from those of the file
}

// span is memory of a process, and where its bytes go. The bytes of memory that does not exist are nil afterwards.
type span struct {
	address uint64
	bytes   []byte
}

// locate reads, from the auxiliary vector, where the program of a process has been loaded.
func (p *process) locate() error {
	if !p.relocated {
		return nil
	}
	const entry = 9 // AT_ENTRY
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", p.pid))
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.LittleEndian.Uint64(vector) == entry {
			p.bias = binary.LittleEndian.Uint64(vector[8:]) - p.entry
			return nil
		}
	}
	if err == nil {
		err = os.ErrProcessDone // which has no memory
	}
	return err
}

// read reads memory that must exist.
func (p *process) read(spans ...span) error {
	if err := p.try(spans); err != nil {
		return err
	}
	for _, s := range spans {
		if s.bytes == nil {
			return fmt.Errorf("it has no memory at %#x", s.address)
		}
	}
	return nil
}

// try reads memory in few system calls.
func (p *process) try(spans []span) error {
	const most = 512 // IOV_MAX is 1024
	for len(spans) > 0 {
		var local []unix.Iovec
		var remote []unix.RemoteIovec
		for _, s := range spans[:min(most, len(spans))] {
			var l unix.Iovec
			if len(s.bytes) > 0 {
				l.Base = &s.bytes[0]
			}
			l.SetLen(len(s.bytes))
			local = append(local, l)
			remote = append(remote, unix.RemoteIovec{Base: uintptr(s.address), Len: len(s.bytes)})
		}
		n, err := unix.ProcessVMReadv(p.pid, local, remote, 0)
		if err != nil && !errors.Is(err, unix.EFAULT) {
			return fmt.Errorf("process_vm_readv: %w", err)
		}
		done := 0
		for n = max(n, 0); done < len(local) && n >= len(spans[done].bytes); done++ {
			n -= len(spans[done].bytes)
		}
		if done < len(local) {
			spans[done].bytes = nil
			done++
		}
		spans = spans[done:]
	}
	return nil
}

// registers returns where a thread is that is blocked or stopped. It reports false if the thread runs or is gone.
func (p *process) registers(thread int) (position, bool) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", p.pid, thread))
	words := bytes.Fields(line)
	if err != nil || len(words) < 3 { // running
		return position{}, false
	}
	sp, err1 := strconv.ParseUint(string(words[len(words)-2]), 0, 64)
	pc, err2 := strconv.ParseUint(string(words[len(words)-1]), 0, 64)
	return position{pc: pc, sp: sp, exact: true}, err1 == nil && err2 == nil
}
