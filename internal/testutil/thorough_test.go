package testutil

import "testing"

func TestThorough(t *testing.T) {
	for value, want := range map[string]bool{"": false, "all": true} {
		t.Setenv(Rounds, value)
		if Thorough() != want {
			t.Errorf("%s=%q: %v", Rounds, value, !want)
		}
		if n := Count(3, 7); n != map[bool]int{false: 3, true: 7}[want] {
			t.Errorf("%s=%q: %d times", Rounds, value, n)
		}
	}
	t.Setenv(Rounds, "some")
	defer func() {
		if recover() == nil {
			t.Error("any value is taken")
		}
	}()
	Thorough()
}
