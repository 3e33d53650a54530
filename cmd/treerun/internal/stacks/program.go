//go:build linux

package stacks

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"syscall"
)

// layout has the offsets in runtime.moduledata that differ between versions of Go. A test compares these and the
// offsets below with the debugging information of a program.
type layout struct{ gofunc int }

var minor = regexp.MustCompile(`^go1\.\d+`)

var layouts = map[string]layout{"go1.26": {320}, "go1.27": {344}}

// Offsets in structures of the runtime, the same in all versions of layouts, on amd64 and arm64.
const (
	gStackLo, gStackHi         = 0, 8
	gM, gSchedSP, gSchedPC     = 48, 56, 64
	gSchedG, gSchedLR          = 72, 88
	gSyscallSP, gSyscallPC     = 104, 112
	gStatus, gID, gWaitReason  = 144, 152, 176
	gSequence                  = 191 // trackingSeq, which counts the times that the goroutine has stopped to run
	gStartPC, gSize            = 304, 312
	mG0, mProcID               = 0, 64
	mVDSOSP, mVDSOPC, mSize    = 896, 904, 912
	moduleText, moduleDataSize = 176, 352
)

const (
	maxSection   = 1 << 30
	maxVariables = 1 << 20 // bytes of variables that are searched, and the slices among them
	maxSlices    = 1 << 12
)

// identity is the same for all processes of one program.
type identity struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec
}

// program is the file of processes.
type program struct {
	info         *debug.BuildInfo
	layout       layout
	linkRegister bool // of arm64
	relocated    bool // at another address in every process
	entry        uint64
	module       uint64 // address of runtime.firstmoduledata
	bss          elf.SectionHeader
	pclntab      []byte
	pclntabAt    uint64

	*table // nil before the first process was read
	allgs  uint64
	known  map[place][]Frame
}

type place struct {
	pc    uint64
	exact bool
}

// openProgram reads the file of a process.
func openProgram(name string) (*program, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	object, err := elf.NewFile(file)
	if err != nil {
		return nil, fmt.Errorf("it does not run a Go program: %w", err)
	}
	tab, module, bss := object.Section(".gopclntab"), object.Section(".go.module"), object.Section(".bss")
	info, err := buildinfo.Read(file)
	if err != nil {
		return nil, fmt.Errorf("it does not run a Go program: %w", err)
	}
	p := &program{info: info, linkRegister: object.Machine == elf.EM_AARCH64, relocated: object.Type == elf.ET_DYN,
		entry: object.Entry, known: map[place][]Frame{}}
	var ok bool
	if p.layout, ok = layouts[minor.FindString(info.GoVersion)]; !ok {
		return nil, fmt.Errorf("its version of Go is %s, and treerun knows the stacks of Go 1.26 and 1.27", info.GoVersion)
	}
	if tab == nil || module == nil || bss == nil {
		return nil, errors.New("its program lacks the sections .gopclntab and .go.module: has a tool changed it?")
	}
	if object.Machine != elf.EM_X86_64 && object.Machine != elf.EM_AARCH64 || tab.Size > maxSection {
		return nil, fmt.Errorf("its program is for %v, and treerun knows the stacks of amd64 and arm64", object.Machine)
	}
	if p.pclntab, err = tab.Data(); err != nil {
		return nil, err
	}
	p.pclntabAt, p.module, p.bss = tab.Addr, module.Addr, bss.SectionHeader
	return p, nil
}

// complete finds, in a first process, what the file does not have at a fixed address, and what only symbols would
// show, which many programs lack: go run and go test do not link them.
func (p *process) complete() error {
	if p.table != nil {
		return nil
	}
	var module [moduleDataSize]byte
	if err := p.read(span{p.module + p.bias, module[:]}); err != nil {
		return err
	}
	first := binary.LittleEndian.Uint64(module[moduleText:]) - p.bias
	gofunc := binary.LittleEndian.Uint64(module[p.layout.gofunc:]) - p.bias
	t, err := newTable(p.pclntab, first, gofunc-p.pclntabAt)
	if err == nil {
		p.allgs, err = p.findGoroutines()
	}
	if err == nil {
		p.table = t
	}
	return err
}

// findGoroutines returns the address of runtime.allgs, the slice of all goroutines, as linked. It is among the
// variables that contain pointers, which the linker sorts by size. Its first goroutine is number 1, and a goroutine
// contains its own address.
func (p *process) findGoroutines() (uint64, error) {
	variables := make([]byte, min(p.bss.Size, maxVariables)/8*8)
	if err := p.read(span{p.bss.Addr + p.bias, variables}); err != nil {
		return 0, err
	}
	var at []uint64
	var arrays, gs []span
	for i := 0; i+24 <= len(variables) && len(at) < maxSlices; i += 8 {
		array, n := binary.LittleEndian.Uint64(variables[i:]), binary.LittleEndian.Uint64(variables[i+8:])
		if array != 0 && array%8 == 0 && 0 < n && n <= binary.LittleEndian.Uint64(variables[i+16:]) && n < 1<<32 {
			at = append(at, p.bss.Addr+uint64(i))
			arrays = append(arrays, span{array, make([]byte, 8)})
		}
	}
	if err := p.try(arrays); err != nil {
		return 0, err
	}
	for _, a := range arrays {
		g := span{0, make([]byte, gSize)}
		if a.bytes != nil {
			g.address = binary.LittleEndian.Uint64(a.bytes)
		}
		gs = append(gs, g)
	}
	if err := p.try(gs); err != nil {
		return 0, err
	}
	for i, g := range gs {
		if g.bytes != nil && binary.LittleEndian.Uint64(g.bytes[gID:]) == 1 &&
			binary.LittleEndian.Uint64(g.bytes[gSchedG:]) == g.address {
			return at[i], nil
		}
	}
	return 0, errors.New("it has no list of goroutines yet")
}

// framesAt returns the frames of a function at pc, from an earlier process if it has been there.
func (p *program) framesAt(f function, pc uint64, exact bool) []Frame {
	key := place{pc, exact}
	frames, ok := p.known[key]
	if !ok {
		if !exact && pc > f.entry {
			pc-- // the call, and not what follows it
		}
		frames = p.frames(f, pc)
		p.known[key] = frames
	}
	return frames
}

// modules returns the paths of the modules of a program.
func (p *program) modules() []string {
	all := []string{p.info.Main.Path}
	for _, m := range p.info.Deps {
		all = append(all, m.Path)
	}
	return all
}
