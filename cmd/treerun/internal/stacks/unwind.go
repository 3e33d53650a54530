//go:build linux

package stacks

import "encoding/binary"

const (
	maxFrames = 256
	maxStack  = 64 << 10 // bytes of a stack that are read, from its innermost frame on
)

// position is a place at which a goroutine can continue.
type position struct {
	pc, sp uint64
	lr     uint64 // with a link register: the return address of a function that has not stored it, or 0
	// exact: pc is an instruction that has not run yet. Otherwise it follows a call. Where a function has changed SP
	// to that of another stack, it is not in this stack, and pc and sp are not used.
	exact bool
	// syscall: pc and sp are from before a system call, and the function may have changed SP since then.
	syscall bool
}

// unwind returns the frames of a stack whose bytes begin at the stack pointer, and whether they are all.
func (p *process) unwind(at position, stack []byte) (all []Frame, complete bool) {
	base := at.sp
	word := func(address uint64) uint64 {
		if address < base || address-base > uint64(len(stack)) || uint64(len(stack))-(address-base) < 8 {
			return 0
		}
		return binary.LittleEndian.Uint64(stack[address-base:])
	}
	for len(all) < maxFrames {
		f, ok := p.find(at.pc - p.bias)
		if !ok {
			return all, false
		}
		all = append(all, p.framesAt(f, at.pc-p.bias, at.exact)...)
		if f.has(topFrame) {
			return all, true
		}
		delta := int32(0) // a function of C that the linker knows has no list
		if list := f.field(16); list != 0 {
			delta = p.value(f, list, at.pc-p.bias)
		}
		name := p.name(f)
		if delta < 0 || f.has(writesSP) && !at.syscall && !at.exact && name != "runtime.cgocallback" {
			return all, false
		}
		next := position{exact: name == "runtime.asyncPreempt" || name == "runtime.sigpanic" ||
			name == "runtime.debugCallV2"}
		if p.linkRegister {
			next.sp, next.pc = at.sp+uint64(delta), at.lr
			if delta > 0 {
				next.pc = word(at.sp)
			}
			if next.exact { // the signal handler stored the link register below the frame that it interrupted
				next.lr = word(next.sp)
				next.sp += 16
			}
		} else {
			next.sp = at.sp + uint64(delta) + 8
			next.pc = word(next.sp - 8)
		}
		at = next
	}
	return all, false
}
