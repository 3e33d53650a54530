//go:build cgo && linux

package cuda

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func init() {
	roles["importer"] = importer
	roles["exporter"] = exporter
}

// importer is the other process of a test: it opens memory by the handles that it is given, on the given device, and
// does with it the operations that the lines name.
func importer(in *bufio.Scanner) error {
	list, err := Devices()
	if err != nil {
		return err
	}
	var d *Device
	var s *Stream
	var m *Mapping
	defer func() {
		if m != nil {
			m.Close()
		}
	}()
	for in.Scan() {
		var command, text string
		var offset, n, v int
		fmt.Sscan(in.Text(), &command, &text, &offset, &n, &v)
		var err error
		answer := "ok"
		switch command {
		case "device":
			fmt.Sscan(text, &n)
			d = list[n]
			s, err = d.NewStream()
		case "open":
			var h MemHandle
			hex.Decode(h[:], []byte(text))
			m, err = d.OpenMemory(h)
		case "again": // a second Mapping of the same is the same
			var h MemHandle
			hex.Decode(h[:], []byte(text))
			var again *Mapping
			if again, err = d.OpenMemory(h); err == nil {
				answer = fmt.Sprint(again.Addr() == m.Addr(), Stats().Mappings)
				err = errors.Join(again.Close(), again.Close())
			}
		case "look": // whether n bytes at offset are v
			b := make([]byte, n)
			var w Slice[byte]
			if w, err = wrapMapping(m, offset, n); err == nil {
				err = w.CopyTo(context.Background(), s, b)
				answer = fmt.Sprint(bytes.Count(b, []byte{byte(v)}))
			}
		case "fill":
			err = errors.Join(s.Memset(m.Addr()+Addr(offset), byte(v), int64(n)), s.Synchronize(context.Background()))
		case "export": // memory that is not this process' own
			_, _, _, _, err = d.ExportMemory(m.Addr())
			answer = fmt.Sprint(errors.Is(err, ErrNotExportable) || errors.Is(err, ErrWrongDevice))
			err = nil
		case "close":
			err = m.Close()
			answer = fmt.Sprint(m.Addr(), Stats().Mappings)
		}
		if err != nil {
			answer = "error " + err.Error()
		}
		fmt.Println(answer)
	}
	return in.Err()
}

// wrapMapping makes a Slice of a part of another process' memory. The driver reports the exporter's device for such
// memory.
func wrapMapping(m *Mapping, offset, n int) (Slice[byte], error) {
	list, err := Devices()
	for _, d := range list {
		var s Slice[byte]
		if s, err = Wrap[byte](d, m.Addr()+Addr(offset), n); !errors.Is(err, ErrWrongDevice) {
			return s, err
		}
	}
	return Slice[byte]{}, err
}

// exporter prints the handle of 5000 bytes, and ends at a line of input, or when it is killed.
func exporter(in *bufio.Scanner) error {
	list, err := Devices()
	if err != nil {
		return err
	}
	m, err := Alloc[byte](list[0], 5000)
	if err != nil {
		return err
	}
	s, err := list[0].NewStream()
	if err != nil {
		return err
	}
	if err := errors.Join(s.Memset(m.Addr(), 0x5A, 5000), s.Synchronize(context.Background())); err != nil {
		return err
	}
	h, _, _, _, err := list[0].ExportMemory(m.Addr())
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(h[:]))
	in.Scan()
	return m.Free()
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the other process says %q, want %q", got, want)
	}
}

// TestMemoryOfAnotherProcess hands an allocation over, from the middle of it,
// to a process on the same GPU and to one on a peer; both read and write it.
func TestMemoryOfAnotherProcess(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	all, _ := Devices()
	others := []int{0}
	for i, p := range all[1:] {
		if can, _ := p.CanAccess(d); can {
			others = append(others, i+1)
			break
		}
	}
	const size = 3 << 20
	m := alloc[byte](t, d, size)
	h, base, offset, bytes, err := d.ExportMemory(m.Addr() + 1000)
	must(t, err)
	if base+Addr(offset) != m.Addr()+1000 || base > m.Addr() || bytes < size {
		t.Fatalf("base %#x, offset %d, %d bytes, for %#x", base, offset, bytes, m.Addr()+1000)
	}
	again, _, _, _, err := d.ExportMemory(m.Addr() + size - 1)
	must(t, err)
	if again != h {
		t.Error("the same allocation has two handles")
	}
	handle := hex.EncodeToString(h[:])
	for _, i := range others {
		t.Run(fmt.Sprintf("device %d", i), func(t *testing.T) {
			must(t, s.Memset(m.Addr(), 1, size))
			must(t, s.Memset(m.Addr()+1000, 0x77, 500))
			must(t, s.Synchronize(t.Context()))
			p := startRole(t, "importer")
			want(t, p.ask(t, "device %d", i), "ok")
			want(t, p.ask(t, "open %s", handle), "ok")
			want(t, p.ask(t, "look . %d 500 %d", offset, 0x77), "500")
			want(t, p.ask(t, "look . %d 2000 %d", offset-500, 0x77), "500")
			want(t, p.ask(t, "fill . %d 300 %d", offset+100, 0x33), "ok")
			b := make([]byte, 500)
			must(t, m.Slice(1000, 1500).CopyTo(t.Context(), s, b))
			if b[99] != 0x77 || b[100] != 0x33 || b[399] != 0x33 || b[400] != 0x77 {
				t.Errorf("after the other process wrote: %x %x %x %x", b[99], b[100], b[399], b[400])
			}
			want(t, p.ask(t, "again %s", handle), "true 2")
			want(t, p.ask(t, "look . %d 500 %d", offset, 0x33), "300") // still mapped
			// of an allocation in the place of this one, with the driver's handle of this one
			later := h
			later[handleBytes]++
			if answer := p.ask(t, "again %s", hex.EncodeToString(later[:])); !strings.Contains(answer,
				"was freed there: close that first") {
				t.Errorf("another allocation with the same handle: %s", answer)
			}
			want(t, p.ask(t, "export"), "true")
			want(t, p.ask(t, "close"), "0 0")
			want(t, p.ask(t, "open %s", handle), "ok")
			want(t, p.ask(t, "look . %d 500 %d", offset, 0x33), "300")
			want(t, p.ask(t, "close"), "0 0")
		})
	}
	_, err = d.OpenMemory(h)
	wantError(t, err, nil, "cuIpcOpenMemHandle", d.UUID(), "one's own process")
	_, err = d.OpenMemory(MemHandle{})
	wantError(t, err, nil, "cuIpcOpenMemHandle", d.UUID())
}

// TestNeighbors: small allocations that share a block of the driver, which a process opens once, are open at the same
// time, each at its own address.
func TestNeighbors(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	p := startRole(t, "importer")
	want(t, p.ask(t, "device 0"), "ok")
	for i := range 3 {
		m := alloc[byte](t, d, 1000*(i+1))
		must(t, s.Memset(m.Addr(), byte(0x11*(i+1)), m.Bytes()))
		must(t, s.Synchronize(t.Context()))
		h, _, offset, _, err := d.ExportMemory(m.Addr())
		must(t, err)
		want(t, p.ask(t, "open %s", hex.EncodeToString(h[:])), "ok") // those before stay open
		want(t, p.ask(t, "look . %d %d %d", offset, m.Bytes(), 0x11*(i+1)), fmt.Sprint(m.Bytes()))
	}
}

// FuzzMemHandle: handles are other processes' bytes. Two are of one block where the process is one, and both begin in
// the same 2 MiB.
func FuzzMemHandle(f *testing.F) {
	f.Add(make([]byte, len(MemHandle{})), []byte{1})
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var a, b MemHandle
		copy(a[:], first)
		copy(b[:], second)
		from, to := a.word(baseWord), b.word(baseWord)
		near := max(from, to)-min(from, to) < 2<<20
		same, one := a.block() == b.block(), a.word(exporterWord) == b.word(exporterWord)
		if same && !(near && one) || !same && a == b {
			t.Errorf("%x and %x: one block: %v", a, b, same)
		}
	})
}

// TestExporterIsKilled: the memory of a killed process stays for processes that have it open, and no other process can
// open it.
func TestExporterIsKilled(t *testing.T) {
	needFake(t) // a real driver may keep it or not
	d := gpus(t, 1)[0]
	s := stream(t, d)
	p := startRole(t, "exporter")
	var h MemHandle
	if _, err := hex.Decode(h[:], []byte(p.line(t))); err != nil {
		t.Fatal(err)
	}
	m, err := d.OpenMemory(h)
	must(t, err)
	must(t, p.Process.Kill())
	p.Wait()
	w, err := wrapMapping(m, 0, 5000)
	must(t, err)
	b := make([]byte, 5000)
	must(t, w.CopyTo(t.Context(), s, b))
	if n := bytes.Count(b, []byte{0x5A}); n != 5000 {
		t.Errorf("%d of 5000 bytes are still there", n)
	}
	must(t, m.Close())
	_, err = d.OpenMemory(h)
	wantError(t, err, nil, "cuIpcOpenMemHandle", d.UUID())
}

// TestRegistered: memory that processes share becomes memory of devices, and a
// store of one is seen by the streams of the other.
func TestRegistered(t *testing.T) {
	d := gpus(t, 1)[0]
	s := stream(t, d)
	fd, err := unix.MemfdCreate("flags", unix.MFD_CLOEXEC)
	must(t, err)
	f := os.NewFile(uintptr(fd), "flags")
	closed(t, f.Close)
	must(t, f.Truncate(1<<16))
	maps := [2][]byte{}
	for i := range maps { // two mappings, as two processes have
		maps[i], err = unix.Mmap(fd, 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		must(t, err)
		closed(t, func() error { return unix.Munmap(maps[i]) })
	}
	a, err := d.RegisterHost(maps[0])
	must(t, err)
	b, err := d.RegisterHost(maps[1])
	must(t, err)
	must(t, await(s, a.Addr()+128, 3))
	must(t, write(s, a.Addr()+192, 4))
	wordIn(maps[1], 128).Store(3)
	must(t, s.Synchronize(t.Context()))
	if maps[0][128] != 3 || maps[1][192] != 4 {
		t.Errorf("the words are %d and %d, want 3 and 4", maps[0][128], maps[1][192])
	}
	_, err = d.RegisterHost(maps[0])
	wantError(t, err, nil, "cuMemHostRegister", "65536 bytes", "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
	_, err = d.RegisterHost(nil)
	wantError(t, err, ErrOutOfRange)
	must(t, a.Close())
	must(t, a.Close())
	must(t, b.Close())
	if a.Addr() != 0 {
		t.Error("memory that is no longer registered has an address")
	}
}

// TestCloseHoldsUpNobody: closing another process' memory waits for the device. Meanwhile other goroutines make streams
// and events, and one that opens the same memory again has it once it was closed.
func TestCloseHoldsUpNobody(t *testing.T) {
	needFake(t)
	d := gpus(t, 1)[0]
	s, w := stream(t, d), flag(t, d)
	p := startRole(t, "exporter")
	var h MemHandle
	if _, err := hex.Decode(h[:], []byte(p.line(t))); err != nil {
		t.Fatal(err)
	}
	m, err := d.OpenMemory(h)
	must(t, err)
	must(t, await(s, w.addr, 1))
	end := make(chan error, 1)
	go func() { end <- m.Close() }()
	for Stats().Mappings > 0 && m.Addr() != 0 {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(20 * time.Millisecond) // it is in the driver's call
	again := make(chan error, 1)
	go func() {
		m, err := d.OpenMemory(h)
		if err == nil {
			err = errors.Join(s.Memset(m.Addr(), 1, 5000), s.Synchronize(t.Context()), m.Close())
		}
		again <- err
	}()
	made := make(chan error, 1)
	go func() {
		e, err := d.NewEvent(false)
		if err == nil {
			err = e.Close()
		}
		made <- err
	}()
	select {
	case err = <-made:
	case <-time.After(10 * time.Second):
		t.Error("a goroutine that makes an event waits for one that closes memory")
	}
	must(t, err)
	select {
	case err := <-end:
		t.Errorf("the memory was closed while a stream waited: %v", err)
	default:
	}
	w.Store(1)
	must(t, errors.Join(<-end, <-again))
	if n := len(d.mappings); n != 0 {
		t.Errorf("%d mappings are left", n)
	}
}
