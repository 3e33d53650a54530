//go:build linux

package stacks

import (
	"encoding/binary"
	"os"
	"runtime"
	"testing"
	"unsafe"
)

// FuzzGoroutines: no bytes in the memory of a process make the reader fail, or run without end. The process is the
// test's own, with goroutines made of the given bytes, whose stacks are among them.
func FuzzGoroutines(f *testing.F) {
	f.Add([]byte{}, uint64(0), uint64(0))
	g := make([]byte, gSize)
	g[gStatus], g[gID], g[gWaitReason] = waiting, 1, 14
	binary.LittleEndian.PutUint64(g[gSchedPC:], 1030)
	f.Add(g, uint64(1), uint64(64))
	g[gStatus] = running
	f.Add(g, uint64(2), uint64(8))
	section, data := smallTable()
	f.Fuzz(func(t *testing.T, memory []byte, count, sp uint64) {
		memory = append(make([]byte, 0, len(memory)+2*gSize+64), memory...)[:len(memory)+2*gSize+64]
		address := uint64(uintptr(unsafe.Pointer(&memory[0])))
		head, list := len(memory)-48, len(memory)-32 // an allgs of up to four goroutines, of which two can be valid
		binary.LittleEndian.PutUint64(memory[head:], address+uint64(list))
		binary.LittleEndian.PutUint64(memory[head+8:], count)
		for i := range 2 {
			at := address + uint64(i*gSize)
			binary.LittleEndian.PutUint64(memory[list+8*i:], at)
			g := memory[i*gSize:]
			binary.LittleEndian.PutUint64(g[gStackLo:], address)
			binary.LittleEndian.PutUint64(g[gStackHi:], address+uint64(len(memory)))
			binary.LittleEndian.PutUint64(g[gSchedG:], at)
			binary.LittleEndian.PutUint64(g[gSchedSP:], address+sp)
		}
		table, err := newTable(section, 1000, data)
		if err != nil {
			t.Fatal(err)
		}
		p := &process{pid: os.Getpid(),
			program: &program{table: table, allgs: address + uint64(head), known: map[place][]Frame{}}}
		all, more, err := p.goroutines()
		if err == nil && uint64(len(all)+more) > count {
			t.Errorf("%d and %d of %d goroutines", len(all), more, count)
		}
		_ = Stacks{Goroutines: all}.String()
		runtime.KeepAlive(memory)
	})
}
