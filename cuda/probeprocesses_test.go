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

	"github.com/treerun/treerun/cuda/internal/driver"
)

func init() {
	roles["pong"] = pong
	roles["neighbors"] = neighbors
	roles["opener"] = opener
}

// rally is the number of times that two processes hand over to each other.
const rally = 50

// words maps a file whose first two words are those of two processes, for a device.
func openFlags(d *Device, path string) (r *Registered, ping, pong word, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, word{}, word{}, err
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 1<<16, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, word{}, word{}, err
	}
	if r, err = d.RegisterHost(b); err != nil {
		return nil, word{}, word{}, err
	}
	ping, pong = wordIn(b, 0), wordIn(b, 128)
	ping.addr, pong.addr = r.Addr(), r.Addr()+128
	return r, ping, pong, nil
}

// handOver puts a rally into a stream: it writes one word when the other one has been written.
func handOver(s *Stream, serves bool, ping, pong word) (err error) {
	for i := range uint32(rally) {
		ops := []MemOp{{Addr: ping.addr, Value: i + 1, Wait: true}, {Addr: pong.addr, Value: i + 1}}
		if serves {
			ops = []MemOp{{Addr: ping.addr, Value: i + 1}, {Addr: pong.addr, Value: i + 1, Wait: true}}
		}
		err = errors.Join(err, s.MemOps(ops))
	}
	return err
}

// pong takes a file and a device, and waits for ping.
func pong(in *bufio.Scanner) error {
	in.Scan()
	var path string
	var n int
	fmt.Sscan(in.Text(), &path, &n)
	list, err := Devices()
	if err != nil {
		return err
	}
	r, ping, pong, err := openFlags(list[n], path)
	if err != nil {
		return err
	}
	s, err := list[n].NewStream()
	if err != nil {
		return err
	}
	if err := handOver(s, false, ping, pong); err != nil {
		return err
	}
	fmt.Println("ready")
	in.Scan()
	return errors.Join(s.Synchronize(context.Background()), r.Close(), s.Close())
}

// TestProbePingPong: the time that two processes take to hand over to each other by flags, on one GPU, where they take
// turns, and on two.
func TestProbePingPong(t *testing.T) {
	d := gpus(t, 1)[0]
	all, _ := Devices()
	for i, name := range []string{"one-GPU", "two-GPUs"}[:min(len(all), 2)] {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.MemfdCreate("flags", unix.MFD_CLOEXEC)
			must(t, err)
			f := os.NewFile(uintptr(fd), "flags")
			closed(t, f.Close)
			must(t, f.Truncate(1<<16))
			path := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
			r, ping, pong, err := openFlags(d, path)
			must(t, err)
			closed(t, r.Close)
			s := stream(t, d)
			from, to := event(t, d, true), event(t, d, true)
			gate := flag(t, d)
			p := startRole(t, "pong")
			want(t, p.ask(t, "%s %d", path, i), "ready")
			defer func() { gate.Store(1); ping.Store(rally); pong.Store(rally) }() // both streams are let go
			must(t, await(s, gate.addr, 1))
			must(t, s.Record(from))
			must(t, handOver(s, true, ping, pong))
			must(t, s.Record(to))
			gate.Store(1)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			must(t, s.Synchronize(ctx))
			took, err := to.Since(from)
			must(t, err)
			t.Attr("hand-over", medianUs([]time.Duration{took / (2 * rally)}))
		})
	}
}

const neighbor = 100_000 // bytes of each allocation

// neighbors prints the handles of two small allocations, and ends when it is killed.
func neighbors(in *bufio.Scanner) error {
	list, err := Devices()
	if err != nil {
		return err
	}
	s, err := list[0].NewStream()
	if err != nil {
		return err
	}
	var handles []string
	for i := range 2 {
		m, err := Alloc[byte](list[0], neighbor)
		if err != nil {
			return err
		}
		h, _, _, _, err := list[0].ExportMemory(m.Addr())
		err = errors.Join(err, s.Memset(m.Addr(), byte(0x51+i), m.Bytes()), s.Synchronize(context.Background()))
		if err != nil {
			return err
		}
		handles = append(handles, hex.EncodeToString(h[:]))
	}
	fmt.Println(strings.Join(handles, " "))
	in.Scan()
	return nil
}

// opener opens two allocations of another process by calls of the driver, and prints the result of each.
func opener(in *bufio.Scanner) error {
	list, err := Devices()
	if err != nil {
		return err
	}
	d := list[0]
	s, err := d.NewStream()
	if err != nil {
		return err
	}
	c, err := d.context()
	if err != nil {
		return err
	}
	say := func(what string, r driver.Result) {
		name, _ := driver.ErrorText(r)
		fmt.Println(what, name)
	}
	read := func(what string, a Addr, v byte) {
		b := make([]byte, neighbor)
		m, err := Wrap[byte](d, a, neighbor)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			err = m.CopyTo(ctx, s, b)
			cancel()
		}
		switch n := bytes.Count(b, []byte{v}); {
		case err != nil:
			fmt.Println(what, "refused:", strings.ReplaceAll(err.Error(), "\n", " "))
		case n < neighbor:
			fmt.Println(what, "WRONG:", neighbor-n, "bytes")
		default:
			fmt.Println(what, "right")
		}
	}
	in.Scan()
	var h [2]MemHandle
	for i, text := range strings.Fields(in.Text()) {
		hex.Decode(h[i][:], []byte(text))
	}
	var base [2]Addr
	for i, what := range []string{"first-open", "second-open-in-its-block"} {
		var r driver.Result
		base[i], r = c.OpenMemory(driver.Handle(h[i][:handleBytes]))
		say(what, r)
	}
	read("first", base[0], 0x51)
	apart := Addr(h[1].word(baseWord) - h[0].word(baseWord))
	fmt.Println("one-block", h[0].block() == h[1].block(), apart)
	read("second-by-the-first-mapping", base[0]+apart, 0x52)
	again, r := c.OpenMemory(driver.Handle(h[0][:handleBytes]))
	say("first-opened-again", r)
	if r == driver.Success {
		fmt.Println("at-the-same-address", again == base[0])
		say("closed-once", c.CloseMemory(again))
		read("first-after-that", base[0], 0x51)
	}
	last := 0
	if base[1] != 0 {
		read("second", base[1], 0x52)
		say("first-closed", c.CloseMemory(base[0]))
		read("second-after-that", base[1], 0x52)
		last = 1
	}
	fmt.Println("kill", ".")
	in.Scan()
	read("after-the-exporter-was-killed", base[last], 0x51+byte(last))
	say("closed-then", c.CloseMemory(base[last]))
	fmt.Println("end", ".")
	return nil
}

// TestProbeBlock: the driver's mapping of two small allocations of another process, which lie in one block.
func TestProbeBlock(t *testing.T) {
	gpus(t, 1)
	exporter, p := startRole(t, "neighbors"), startRole(t, "opener")
	fmt.Fprintln(p.in, exporter.line(t))
	for {
		switch what, how, _ := strings.Cut(p.line(t), " "); {
		case what == "kill":
			must(t, exporter.Process.Kill())
			exporter.Wait()
			fmt.Fprintln(p.in)
		case what == "end":
			return
		case strings.Contains(how, "WRONG"):
			t.Errorf("%s: %s", what, how)
			fallthrough
		default:
			t.Attr(what, how)
		}
	}
}
