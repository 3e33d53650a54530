//go:build linux

package osys

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/testutil"
)

const size = 1 << 16

func sealed(t *testing.T) int {
	t.Helper()
	fd, err := CreateSealed("treerun-test", size, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = CloseFD(fd) })
	return fd
}

func mapped(t *testing.T, fd int) []byte {
	t.Helper()
	b, err := Map(fd, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Unmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

// TestSealed checks that the file has its size, all of it allocated, and that no process can change either.
func TestSealed(t *testing.T) {
	fd := sealed(t)
	if err := CheckSealed(fd, size); err != nil {
		t.Fatal(err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if st.Blocks*512 < size {
		t.Errorf("%d of %d bytes are allocated", st.Blocks*512, size)
	}
	for _, n := range []int64{0, size - 1, size + 1} {
		if err := syscall.Ftruncate(fd, n); !errors.Is(err, syscall.EPERM) {
			t.Errorf("ftruncate to %d: %v, want EPERM", n, err)
		}
	}
}

func TestCheckSealedRejects(t *testing.T) {
	fd := sealed(t)
	if err := CheckSealed(fd, size+4096); err == nil {
		t.Error("another size: no error")
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if err := CheckSealed(int(f.Fd()), size); err == nil {
		t.Error("a plain file: no error")
	}
}

// TestTooMuch checks that a request for more memory than there is returns an error with the amounts. Only the check is
// called: if it were wrong, allocating would take all memory of the machine.
func TestTooMuch(t *testing.T) {
	if _, ok := freeMemory(); !ok {
		testutil.Need(t, testutil.Memory, errors.New("free memory is not known here"))
	}
	err := checkFree(1 << 60)
	if !errors.Is(err, syscall.ENOMEM) || !strings.Contains(err.Error(), "1152921504606846976 bytes") {
		t.Errorf("an exbibyte: %v, want ENOMEM and the number of bytes", err)
	}
	if err := checkFree(1 << 12); err != nil {
		t.Errorf("a page: %v", err)
	}
}

// TestMap checks that two mappings of one file are the same memory, and that a blanked one is zero and separate.
func TestMap(t *testing.T) {
	fd := sealed(t)
	a, b := mapped(t, fd), mapped(t, fd)
	Prefault(a)
	a[5] = 42
	if b[5] != 42 {
		t.Fatal("mappings differ")
	}
	if err := Blank(a); err != nil {
		t.Fatal(err)
	}
	if a[5] != 0 {
		t.Error("blanked mapping is not zero")
	}
	a[5] = 1
	if b[5] != 42 {
		t.Error("blanked mapping still writes to the file")
	}
}

// TestFutex checks that a changed word is not slept on, that a sleep ends after its time, and that a wake through
// another mapping ends it.
func TestFutex(t *testing.T) {
	fd := sealed(t)
	a, b := wordOf(mapped(t, fd)), wordOf(mapped(t, fd))
	atomic.StoreUint32(a, 7)
	if FutexWait(a, 8, time.Hour) {
		t.Error("slept on a word that had changed")
	}
	for start := time.Now(); !FutexWait(a, 7, 20*time.Millisecond); {
		if time.Since(start) > time.Minute {
			t.Fatal("sleeps do not end by themselves")
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for atomic.LoadUint32(a) == 7 {
			FutexWait(a, 7, time.Hour)
		}
	}()
	time.Sleep(10 * time.Millisecond)
	atomic.StoreUint32(b, 8)
	FutexWake(b)
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatal("not woken")
	}
	new(Yielder).Yield()
}

// doorbell opens a Doorbell under a name of its own.
func doorbell(t *testing.T) (d *Doorbell, name string) {
	t.Helper()
	name = "treerun-test-" + rand.Text()
	d, err := NewDoorbell(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, name
}

// WaitAny ends when one of its places wakes it, whatever they are, and at its time.
func TestWaitAny(t *testing.T) {
	bell, err := NewDoorbell("treerun-test-" + rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	defer bell.Close()
	words := make([]uint32, 200)
	place := func(i int) Place { return Place{Word: &words[i], FDs: [2]int{-1, -1}} }
	var two, many []Place
	for i := range words {
		if many = append(many, place(i)); i < 2 {
			two = append(two, place(i))
		}
	}
	mixed := append(slices.Clone(two), Place{FDs: [2]int{-1, bell.FD()}})
	for name, places := range map[string][]Place{"two words": two, "many words": many, "mixed": mixed,
		"descriptors": mixed[2:]} {
		begin := time.Now()
		WaitAny(places, 2*time.Millisecond)
		if d := time.Since(begin); d < nap {
			t.Errorf("%s: it ended after %v", name, d)
		}
	}
	words[1] = 1 // the event has happened before the sleep
	WaitAny(two, time.Hour)
	words[1] = 0
	woken := make(chan bool)
	go func() {
		WaitAny(two, time.Hour)
		close(woken)
	}()
	for {
		select {
		case <-woken:
			return
		case <-time.After(time.Millisecond):
			FutexWake(&words[1])
		}
	}
}

func TestPassFD(t *testing.T) {
	from, own := doorbell(t)
	to, name := doorbell(t)
	fd, token := sealed(t), []byte("12345678")
	if _, err := to.RecvFD(token, none, time.Millisecond); !errors.Is(err, ErrAgain) {
		t.Errorf("nothing was sent: %v", err)
	}
	a, err := NewBellAddress(name)
	if err != nil {
		t.Fatal(err)
	}
	from.Ring(a) // is no descriptor
	if err := from.SendFD(name, token, fd); err != nil {
		t.Fatal(err)
	}
	got, err := to.RecvFD(token, none, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = CloseFD(got) }()
	if err := CheckSealed(got, size); err != nil || got == fd {
		t.Errorf("descriptor %d for %d: %v", got, fd, err)
	}
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(got), syscall.F_GETFD, 0)
	if errno != 0 || flags&syscall.FD_CLOEXEC == 0 {
		t.Errorf("descriptor would be inherited (flags %#x, %v)", flags, errno)
	}
	for err = nil; err == nil; {
		err = to.SendFD(own, token, fd)
	}
	if !errors.Is(err, ErrAgain) {
		t.Errorf("a full doorbell: %v", err)
	}
	_ = from.Close()
	if err := to.SendFD(own, token, fd); err == nil || errors.Is(err, ErrAgain) {
		t.Errorf("a doorbell that is gone: %v", err)
	}
}

// none is the message that SendNone sends in these tests.
var none = []byte("87654321")

// TestSendNone checks that RecvFD does not wait for a sender that has no descriptor.
func TestSendNone(t *testing.T) {
	name := fmt.Sprintf("treerun-test-none-%d", os.Getpid())
	d, err := NewDoorbell(name)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.SendNone(name, none); err != nil {
		t.Fatal(err)
	}
	if fd, err := d.RecvFD([]byte("12345678"), none, time.Minute); !errors.Is(err, ErrNone) {
		t.Errorf("descriptor %d, %v", fd, err)
	}
}

// TestRecvFDRejects checks that messages with no descriptor, too many, too few or other bytes are dropped, and leave no
// descriptor open.
func TestRecvFDRejects(t *testing.T) {
	fd := sealed(t)
	d, name := doorbell(t)
	before := openFDs(t)
	from, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		msg    string
		rights []int
	}{
		"none": {"12345678", nil}, "two": {"12345678", []int{fd, fd}},
		"many":  {"12345678", []int{fd, fd, fd, fd, fd, fd, fd, fd}},
		"short": {"123", []int{fd}}, "long": {"123456789", []int{fd}}, "other": {"12345679", []int{fd}},
	} {
		var oob []byte
		if c.rights != nil {
			oob = unix.UnixRights(c.rights...)
		}
		if err := unix.Sendmsg(from, []byte(c.msg), oob, &unix.SockaddrUnix{Name: "@" + name}, 0); err != nil {
			t.Fatal(err)
		}
		if fd, err := d.RecvFD([]byte("12345678"), none, time.Minute); !errors.Is(err, ErrAgain) {
			t.Errorf("%s: descriptor %d, %v", what, fd, err)
		}
	}
	_ = unix.Close(from)
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	testutil.Need(t, testutil.Proc, err)
	return len(d)
}

func TestParseMemory(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal: 9 kB\nMemAvailable:   24 kB\n": 24 << 10, "MemAvailable: 1": -1, "MemAvailable: x kB": -1,
		"": -1, "MemAvailable: -4 kB": -1, "MemAvailable: 99999999999999999999 kB": -1,
	} {
		if got, ok := parseAvailable(text); ok != (want >= 0) || ok && got != want {
			t.Errorf("parseAvailable(%q) = %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, c := range []struct {
		limit, used string
		want        int64
	}{{"100\n", "30\n", 70}, {"100", "130", 0}, {"max\n", "30\n", -1}, {"100", "", -1}, {"", "", -1}, {"-1", "0", -1}} {
		if got, ok := parseLeft(c.limit, c.used); ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("parseLeft(%q, %q) = %d, %v, want %d", c.limit, c.used, got, ok, c.want)
		}
	}
}

func TestUnifiedGroup(t *testing.T) {
	for text, want := range map[string]string{
		"0::/\n":                        "/",
		"4:memory:/x\n0::/a/b\n":        "/a/b",
		"0::/../../escape\n":            "/escape",
		"4:memory:/x\n1:name=systemd:/": "",
		"0::relative":                   "",
		"":                              "",
	} {
		if got, ok := unifiedGroup(text); got != want || ok != (want != "") {
			t.Errorf("unifiedGroup(%q) = %q, %v, want %q", text, got, ok, want)
		}
	}
}

// FuzzSystemText checks that the parsers accept any contents of a file without failing.
func FuzzSystemText(f *testing.F) {
	f.Add("0::/a\n", "1")
	f.Add("MemAvailable: 7 kB", "x")
	f.Fuzz(func(t *testing.T, text, other string) {
		if dir, ok := unifiedGroup(text); ok && !filepath.IsAbs(dir) {
			t.Errorf("relative group %q", dir)
		}
		if n, ok := parseAvailable(text); ok && n < 0 {
			t.Errorf("%d bytes available", n)
		}
		if n, ok := parseLeft(text, other); ok && n < 0 {
			t.Errorf("%d bytes left", n)
		}
	})
}

// TestPinThread checks that every core can be chosen, and that the old ones are restored.
func TestPinThread(t *testing.T) {
	cores := func() int {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		return set.Count()
	}
	before := cores()
	for k := range 2*before + 1 {
		restore, err := PinThread(k, nil)
		if err != nil {
			t.Fatalf("core %d: %v", k, err)
		}
		if n := cores(); n != 1 {
			t.Errorf("tied to core %d, the thread has %d cores", k, n)
		}
		restore()
		if n := cores(); n != before {
			t.Fatalf("after core %d the thread has %d cores of %d", k, n, before)
		}
	}
}

// TestFlood checks that a Doorbell that is rung endlessly drops some rings per Wait, and that Wait ends.
func TestFlood(t *testing.T) {
	d, name := doorbell(t)
	from, _ := doorbell(t)
	a, err := NewBellAddress(name)
	if err != nil {
		t.Fatal(err)
	}
	drain := func() (n int) {
		for ; ; n++ {
			if _, _, err := unix.Recvfrom(d.FD(), make([]byte, 1), unix.MSG_DONTWAIT); err != nil {
				return n
			}
		}
	}
	fill := func() {
		for range 100 { // as many as the system keeps
			from.Ring(a)
		}
	}
	fill()
	kept := drain()
	fill()
	d.Wait(-1, time.Minute)
	if left := drain(); left != max(0, kept-silenceMax) {
		t.Errorf("of %d rings one Wait took %d in, want %d", kept, kept-left, silenceMax)
	}
	stop := make(chan bool)
	var flood sync.WaitGroup
	for range 4 {
		flood.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					from.Ring(a)
				}
			}
		})
	}
	for range 100 {
		d.Wait(-1, time.Minute)
	}
	close(stop)
	flood.Wait()
}
