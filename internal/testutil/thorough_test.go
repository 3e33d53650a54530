package testutil

import "testing"

func TestThorough(t *testing.T) {
	for value, want := range map[string]bool{"": false, "all": true} {
		t.Setenv(Rounds, value)
		if Thorough() != want {
			t.Errorf("%s=%q: %v", Rounds, value, !want)
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
