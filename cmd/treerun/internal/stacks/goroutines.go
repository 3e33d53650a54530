//go:build linux

package stacks

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
)

// The states of a goroutine, without the bit scanned, which the garbage collector sets.
const (
	idle, runnable, running, inSyscall, waiting = 0, 1, 2, 3, 4
	dead, copystack, preempted, leaked, extra   = 6, 8, 9, 10, 11
	scanned                                     = 0x1000
)

var states = map[uint32]string{idle: "idle", runnable: "runnable", running: "running", inSyscall: "syscall",
	waiting: "waiting", copystack: "copystack", preempted: "preempted", leaked: "leaked"}

// reasons are the strings of runtime.waitReason.
var reasons = strings.Split("|GC assist marking|IO wait|dumping heap|garbage collection|garbage collection scan|"+
	"panicwait|GC assist wait|GC sweep wait|GC scavenge wait|finalizer wait|force gc (idle)|"+
	"GOMAXPROCS updater (idle)|semacquire|sleep|chan receive (nil chan)|chan send (nil chan)|select (no cases)|"+
	"select|chan receive|chan send|sync.Cond.Wait|sync.Mutex.Lock|sync.RWMutex.RLock|sync.RWMutex.Lock|"+
	"sync.WaitGroup.Wait|trace reader (blocked)|wait for GC cycle|GC worker (idle)|GC worker (active)|preempted|"+
	"debug call|GC mark termination|stopping the world|flushing proc caches|trace goroutine status|"+
	"trace proc status|page trace flush|coroutine|GC weak to strong wait|synctest.Run|synctest.Wait|"+
	"chan receive (durable)|chan send (durable)|select (durable)|sync.WaitGroup.Wait (durable)|cleanup wait", "|")

const (
	batch    = 256 // goroutines that are read together
	attempts = 3   // for a goroutine that changes while it is read
)

// goroutines reads the goroutines of the process, and returns the number of those that it leaves out.
func (p *process) goroutines() (all []Goroutine, more int, err error) {
	var head [16]byte
	if err := p.read(span{p.allgs + p.bias, head[:]}); err != nil {
		return nil, 0, err
	}
	n := binary.LittleEndian.Uint64(head[8:])
	count := min(n, maxGoroutines)
	list := make([]byte, 8*count)
	if err := p.read(span{binary.LittleEndian.Uint64(head[:]), list}); err != nil {
		return nil, 0, err
	}
	for part := range slices.Chunk(list, 8*batch) {
		var gs []*goroutine
		for ; len(part) > 0; part = part[8:] {
			gs = append(gs, &goroutine{address: binary.LittleEndian.Uint64(part)})
		}
		for range attempts {
			again := slices.DeleteFunc(slices.Clone(gs), func(g *goroutine) bool { return g.done })
			if len(again) == 0 {
				break
			}
			if err := p.attempt(again); err != nil {
				return nil, 0, err
			}
		}
		for _, g := range gs {
			if g.ID != 0 {
				all = append(all, g.Goroutine)
			}
		}
	}
	return all, int(n - count), nil
}

// goroutine is a runtime.g that is read.
type goroutine struct {
	Goroutine
	address   uint64
	g         []byte
	m         []byte // of its thread
	at        position
	stack     []byte
	registers position // of its thread
	done      bool     // nothing has changed while it was read, or there is nothing to read
}

func (g *goroutine) word(offset int) uint64 { return binary.LittleEndian.Uint64(g.g[offset:]) }

func (g *goroutine) status() uint32 { return binary.LittleEndian.Uint32(g.g[gStatus:]) &^ scanned }

// contains reports whether an address is in the stack of the goroutine.
func (g *goroutine) contains(sp uint64) bool { return g.word(gStackLo) <= sp && sp < g.word(gStackHi) }

// attempt reads goroutines once. Those that did not change meanwhile are done.
func (p *process) attempt(gs []*goroutine) error {
	spans := make([]span, len(gs))
	each := func(of []*goroutine, f func(g *goroutine) span) error {
		spans = spans[:0]
		for _, g := range of {
			spans = append(spans, f(g))
		}
		return p.try(spans)
	}
	if err := each(gs, func(g *goroutine) span { return span{g.address, make([]byte, gSize)} }); err != nil {
		return err
	}
	var on, found []*goroutine
	for i, g := range gs {
		if g.g = spans[i].bytes; g.g == nil || g.word(gSchedG) != g.address && g.status() != dead {
			continue // not a goroutine: the list has moved
		}
		switch g.status() {
		case idle, dead, extra:
			g.Goroutine, g.done = Goroutine{}, true
			continue
		}
		found, g.m = append(found, g), nil
		if g.word(gM) != 0 {
			on = append(on, g)
		}
	}
	if err := each(on, func(g *goroutine) span { return span{g.word(gM), make([]byte, mSize)} }); err != nil {
		return err
	}
	for i, g := range on {
		g.m = spans[i].bytes
	}
	for _, g := range found {
		p.describe(g)
	}
	if err := each(found, func(g *goroutine) span {
		g.stack = nil
		if g.contains(g.at.sp) {
			g.stack = make([]byte, min(g.word(gStackHi)-g.at.sp, maxStack))
		}
		return span{g.at.sp, g.stack}
	}); err != nil {
		return err
	}
	for i, g := range found {
		g.stack = spans[i].bytes
	}
	if err := each(found, func(g *goroutine) span { return span{g.address, make([]byte, gSize)} }); err != nil {
		return err
	}
	for i, g := range found {
		p.conclude(g, spans[i].bytes)
	}
	return nil
}

// describe decodes a goroutine, and finds the position at which its stack begins.
func (p *process) describe(g *goroutine) {
	g.Goroutine, g.registers = Goroutine{ID: g.word(gID), Status: states[g.status()]}, position{}
	reason := int(g.g[gWaitReason])
	if (g.status() == waiting || g.status() == leaked) && 0 < reason && reason < len(reasons) {
		g.Status = reasons[reason]
	}
	if f, ok := p.find(g.word(gStartPC) - p.bias); ok {
		g.Start = p.name(f)
		if g.Start == "runtime.main" {
			g.Start = "main.main"
		}
		g.System = strings.HasPrefix(g.Start, "runtime.")
	}
	if g.m != nil {
		g.Thread = int(binary.LittleEndian.Uint64(g.m[mProcID:]))
	}
	g.at = position{pc: g.word(gSchedPC), sp: g.word(gSchedSP)}
	if p.linkRegister {
		g.at.lr = g.word(gSchedLR)
	}
	switch g.status() {
	case inSyscall: // or in C
		g.at = position{pc: g.word(gSyscallPC), sp: g.word(gSyscallSP), syscall: true}
	case running:
		p.describeRunning(g)
	}
}

// describeRunning finds the position of a goroutine whose thread has stopped, or is blocked, without the knowledge of
// Go's scheduler. The thread can be on its own stack, in the runtime or in the kernel's vDSO, and has stored then where
// the goroutine continues. In a handler of signals it has not: what is stored is old.
func (p *process) describeRunning(g *goroutine) {
	sched := g.at
	g.at = position{}
	var ok bool
	if g.registers, ok = p.registers(g.Thread); !ok || g.m == nil {
		g.OnCPU, g.Note = true, "runs on a CPU"
		return
	}
	vdso := position{pc: binary.LittleEndian.Uint64(g.m[mVDSOPC:]), sp: binary.LittleEndian.Uint64(g.m[mVDSOSP:])}
	_, inGo := p.find(g.registers.pc - p.bias)
	var own [16]byte // the bounds of the thread's own stack
	if err := p.try([]span{{binary.LittleEndian.Uint64(g.m[mG0:]), own[:]}}); err != nil {
		inGo = false
	}
	inOwn := binary.LittleEndian.Uint64(own[:]) <= g.registers.sp && g.registers.sp < binary.LittleEndian.Uint64(own[8:])
	switch {
	case inGo && g.contains(g.registers.sp):
		g.at = g.registers
	case g.contains(vdso.sp):
		g.at = vdso
	case inGo && inOwn && g.contains(sched.sp):
		g.at = sched
	default:
		g.Note = "handles a signal, or runs C on the stack of its thread"
	}
}

// conclude unwinds the stack of a goroutine, if the goroutine is the same as before the stack was read. A stack that
// seems to have no end is worth a further attempt.
func (p *process) conclude(g *goroutine, again []byte) {
	same := again != nil && (g.status()^binary.LittleEndian.Uint32(again[gStatus:]))&^scanned == 0
	for _, part := range [][2]int{{gStackLo, gStackHi + 8}, {gM, gSchedPC + 8}, {gSyscallSP, gSyscallPC + 8},
		{gID, gID + 8}, {gWaitReason, gWaitReason + 1}, {gSequence, gSequence + 1}} {
		same = same && bytes.Equal(g.g[part[0]:part[1]], again[part[0]:part[1]])
	}
	if same && g.registers.exact {
		now, _ := p.registers(g.Thread)
		same = now == g.registers
	}
	switch {
	case !same:
		g.OnCPU, g.Note = true, "changed while it was read"
	case g.Note != "":
		g.done = true
	default:
		g.Frames, g.done = p.unwind(g.at, g.stack)
		g.Partial = !g.done
	}
}
