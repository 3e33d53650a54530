// Package tuner chooses among shapes of plan that treerun bench has measured,
// prints what was found, and knows where the tuning file is that later jobs go
// by. It measures nothing. Only cmd/treerun's bench imports it.
package tuner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
	"github.com/treerun/treerun/cmd/treerun/internal/exitcode"
	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/plan"
)

// Tuner makes a Tuning of points, which come by collective and rising size.
type Tuner struct{ tuning collective.Tuning }

// New returns a tuner for jobs of np ranks on so many cores of this host.
func New(np, cores int) *Tuner {
	host, _ := os.Hostname() // stands there for people
	return &Tuner{collective.Tuning{
		Version: collective.TuningVersion, Host: host, Processor: collective.Processor(), Ranks: np, Cores: cores,
	}}
}

// margin is how much quicker a shape must be, as a factor, than the one that
// is taken for smaller messages: less may be noise, and the table stays short.
const margin = 1.05

// Add takes the next point and returns the shape that is chosen there.
func (t *Tuner) Add(p *suite.Point) (string, error) {
	var kind plan.Kind
	if err := kind.UnmarshalText([]byte(p.Collective)); err != nil {
		return "", fmt.Errorf("bench: %w", err)
	}
	best := p.Candidates[0]
	for _, c := range p.Candidates {
		t.tuning.Measured = append(t.tuning.Measured, collective.TunedResult{Collective: kind, Bytes: p.Bytes, Shape: c.Plan, Us: c.Us})
		if c.Us < best.Us {
			best = c
		}
	}
	if len(p.Candidates) == 1 {
		return best.Plan, nil // nothing to choose
	}
	all := &t.tuning.Collectives
	n := len(*all)
	if n == 0 || (*all)[n-1].Collective != kind {
		*all = append(*all, collective.TunedKind{Collective: kind, Choices: []collective.TunedChoice{{Shape: best.Plan}}})
		return best.Plan, nil
	}
	choices := &(*all)[n-1].Choices
	now := &(*choices)[len(*choices)-1]
	if i := slices.IndexFunc(p.Candidates, func(c suite.Candidate) bool { return c.Plan == now.Shape }); i >= 0 && p.Candidates[i].Us <= best.Us*margin {
		return now.Shape, nil
	}
	now.BelowBytes = p.Bytes
	*choices = append(*choices, collective.TunedChoice{Shape: best.Plan})
	return best.Plan, nil
}

// Store writes what was chosen to file. What stands there already of other
// collectives stays.
func (t *Tuner) Store(file string) error {
	out := t.tuning
	if old, err := collective.LoadTuning(file, out.Ranks, out.Cores); err == nil {
		measured := make(map[plan.Kind]bool)
		for _, r := range out.Measured {
			measured[r.Collective] = true
		}
		for _, k := range old.Collectives {
			if !measured[k.Collective] {
				out.Collectives = append(out.Collectives, k)
			}
		}
		for _, r := range old.Measured {
			if !measured[r.Collective] {
				out.Measured = append(out.Measured, r)
			}
		}
	}
	slices.SortStableFunc(out.Collectives, func(a, b collective.TunedKind) int { return int(a.Collective) - int(b.Collective) })
	slices.SortStableFunc(out.Measured, func(a, b collective.TunedResult) int { return int(a.Collective) - int(b.Collective) })
	return out.Store(file)
}

// File returns the file that --tune writes: the one that jobs go by, so that
// TREERUN_TUNE counts. It checks that a file can be written there, before
// minutes are spent on measuring.
func File(np, cores int) (string, error) {
	file := os.Getenv(collective.TuneVariable)
	if file == "" || file == "off" {
		var err error
		if file, err = collective.TuningPath(np, cores); err != nil {
			return "", exitcode.Errorf(exitcode.Internal, "bench: --tune: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", exitcode.Errorf(exitcode.Internal, "bench: --tune: %w", err)
	}
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return "", exitcode.Errorf(exitcode.Usage, "bench: --tune: %s=%s is no regular file", collective.TuneVariable, file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".tune-*")
	if err == nil {
		err = f.Close()
		if removeErr := os.Remove(f.Name()); err == nil {
			err = removeErr
		}
	}
	if err != nil {
		return "", exitcode.Errorf(exitcode.Internal, "bench: --tune: %w", err)
	}
	return file, nil
}

// Check refuses a file that TREERUN_TUNE names and that ranks could not use, as
// wrong usage: before they start.
func Check(np, cores int) error {
	file := os.Getenv(collective.TuneVariable)
	if file == "" || file == "off" || np == 1 {
		return nil
	}
	if _, err := collective.LoadTuning(file, np, cores); err != nil {
		return exitcode.Errorf(exitcode.Usage, "bench: %s=%s: %w (make one with treerun bench --tune -np %d, or set it to off)",
			collective.TuneVariable, file, err, np)
	}
	return nil
}
