package figures

import "testing"

// The constants of the authors' machine are fixed by the first and the last of
// their times: what lies between is the model's, and must be near theirs.
func TestSparseAgainstAuthors(t *testing.T) {
	f := figure(t, "sparse-authors")
	measured, simulated, limit := f.series(t, "OmniReduce, measured by its authors"), f.series(t, "OmniReduce, simulated"), f.series(t, "limit of any scheme")
	if len(simulated) != 9 {
		t.Fatalf("%d densities", len(simulated))
	}
	for i, p := range simulated {
		if d := p.Y/measured[i].Y - 1; d > 0.1 || d < -0.1 {
			t.Errorf("%v %%: %v ms, measured were %v", p.X, p.Y, measured[i].Y)
		}
		if p.Y < limit[i].Y {
			t.Errorf("%v %%: %v ms is less than the limit of %v", p.X, p.Y, limit[i].Y)
		}
	}
	if got, want := limit[8].Y, 26_214_400*4/12.5e6; got != want {
		t.Errorf("the limit for full tensors is %v ms, want %v", got, want)
	}
}

// Sparse trees are within reach of what is possible, and never behind aggregators
// on the workers.
func TestSparseTreesOverCards(t *testing.T) {
	for _, name := range []string{"sparse-random", "sparse-same"} {
		f := figure(t, name)
		if len(f.Claims) != 2 {
			t.Fatalf("%s: %d claims", name, len(f.Claims))
		}
		for _, c := range f.Claims {
			if !c.Holds {
				t.Errorf("%s: %s %s", name, c.Text, c.Found)
			}
		}
		limit := f.series(t, "limit without further machines")
		for _, s := range f.Series[:2] {
			for i, p := range s.Points {
				if p.Y < limit[i].Y {
					t.Errorf("%s, %s at %v %%: %v ms is less than the limit of %v", name, s.Name, p.X, p.Y, limit[i].Y)
				}
			}
		}
	}
}
