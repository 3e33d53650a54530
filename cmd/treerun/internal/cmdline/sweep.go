package cmdline

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/pflag"
)

// Sweep holds the flags of bench and sim for the sizes of messages, and for the number of calls in flight.
type Sweep struct {
	Begin, End Size
	Factor     float64
	InFlight   []int
}

// Define adds the flags; the values of Begin and End are the defaults.
func (s *Sweep) Define(f *pflag.FlagSet) {
	f.VarP(&s.Begin, "begin", "b", "smallest message; K, M, G and T are powers of 1024")
	f.VarP(&s.End, "end", "e", "largest message")
	f.Float64VarP(&s.Factor, "factor", "f", 2, "every message is `F` times as large as the one before")
	f.IntSliceVar(&s.InFlight, "inflight", []int{1},
		"`N`,... calls are issued at once and waited for together; time and bandwidths are those of all of them")
	f.Lookup("inflight").DefValue = "1" // not [1]
}

const maxInFlight = 1000

// Check returns an error for impossible values.
func (s *Sweep) Check() error {
	switch {
	case s.Begin > s.End:
		return fmt.Errorf("-b %s is larger than -e %s", &s.Begin, &s.End)
	case !(s.Factor >= 1.01 && s.Factor <= 1e6):
		return fmt.Errorf("-f %v: want a factor from 1.01 to 1000000", s.Factor)
	case len(s.InFlight) == 0:
		return errors.New("--inflight: want at least one number")
	case slices.Min(s.InFlight) < 1 || slices.Max(s.InFlight) > maxInFlight:
		return fmt.Errorf("--inflight %v: want numbers from 1 to %d", s.InFlight, maxInFlight)
	}
	return nil
}

// Sizes returns the sizes of the messages.
func (s *Sweep) Sizes() []int64 {
	var list []int64
	for v := float64(s.Begin); v <= float64(s.End)*(1+1e-9); v *= s.Factor {
		list = append(list, int64(math.Round(v)))
	}
	return list
}
