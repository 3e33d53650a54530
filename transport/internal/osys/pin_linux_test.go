package osys

import (
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPinBoundThread checks that a thread that is bound to one core can be tied to another one for a while, and to none
// that does not exist.
func TestPinBoundThread(t *testing.T) {
	cores := func() (list []int) {
		var set unix.CPUSet
		if err := unix.SchedGetaffinity(0, &set); err != nil {
			t.Fatal(err)
		}
		for cpu := range 64 * len(set) {
			if set.IsSet(cpu) {
				list = append(list, cpu)
			}
		}
		return list
	}
	all := cores()
	bind, err := PinThread(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bind()
	own := cores()
	for k := range 2 * len(all) {
		restore, err := PinThread(k, all)
		if err != nil {
			t.Fatalf("core %d: %v", k, err)
		}
		if got := cores(); !slices.Equal(got, all[k%len(all):k%len(all)+1]) {
			t.Errorf("tied to number %d of %v, the thread has %v", k, all, got)
		}
		restore()
		if got := cores(); !slices.Equal(got, own) {
			t.Fatalf("after number %d the thread has %v, want %v", k, got, own)
		}
	}
	if _, err := PinThread(0, []int{64*len(unix.CPUSet{}) - 1}); err == nil {
		t.Error("tied to a core that is not there")
	}
	if got := cores(); !slices.Equal(got, own) {
		t.Errorf("after an error the thread has %v, want %v", got, own)
	}
}

// TestMoveThread checks that a thread gets to every core, and keeps all its cores: those of its cpuset, or, where it is
// bound, the ones that it is bound to.
func TestMoveThread(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func(all []int) {
		for _, core := range all {
			for turn := 0; ; turn++ {
				if err := MoveThread(core); err != nil {
					t.Fatal(err)
				}
				if Core() == core && getcpu() == core {
					break
				}
				if turn == 1000 { // the kernel may have moved it since
					t.Fatalf("moved to core %d, the thread is on core %d", core, Core())
				}
			}
			if got := Cores(); !slices.Equal(got, all) {
				t.Fatalf("after a move to core %d the thread has %v, want %v", core, got, all)
			}
		}
	}
	all := Cores()
	check(all)
	bind, err := PinThread(0, all[len(all)-1:])
	if err != nil {
		t.Fatal(err)
	}
	check(all[len(all)-1:])
	bind()
	if err := MoveThread(64*len(unix.CPUSet{}) - 1); err == nil {
		t.Error("moved to a core that is not there")
	}
	if got := Cores(); !slices.Equal(got, all) {
		t.Errorf("in the end the thread has %v, want %v", got, all)
	}
}

func BenchmarkCore(b *testing.B) {
	b.Run("Core", func(b *testing.B) {
		for b.Loop() {
			Core()
		}
	})
	b.Run("getcpu", func(b *testing.B) {
		for b.Loop() {
			getcpu()
		}
	})
}
