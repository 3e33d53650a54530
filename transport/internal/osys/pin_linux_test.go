package osys

import (
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
