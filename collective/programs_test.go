package collective_test

import (
	"fmt"
	"math/cmplx"
	"slices"
	"testing"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/treerun/treerun/collective"
)

// TestPrograms: the task farm and the Fourier transform of the examples have the results of serial code with 1 to 8
// ranks. The third program that people port, Jacobi with rows and columns, is examples/heat.
func TestPrograms(t *testing.T) {
	all := primes(0, end)
	for size := 1; size <= 8; size++ {
		n := 6 * size
		x := make([]complex128, n*n)
		for i := range x {
			x[i] = complex(float64(i*i%37), float64(i%11)-5)
		}
		want := fourier.NewCmplxFFT(len(x)).Coefficients(nil, x)
		onRanks(size, func(c *collective.Comm) error {
			found, err := farm(c)
			if err != nil || c.Rank() == 0 && !slices.Equal(found, all) {
				return fmt.Errorf("%d primes, want %d: %w", len(found), len(all), err)
			}
			part := len(x) / size
			got := slices.Clone(x[c.Rank()*part:][:part])
			if err := fft(c, got, n); err != nil {
				return err
			}
			for i, v := range got {
				if w := want[c.Rank()*part+i]; cmplx.Abs(v-w) > 1e-9*float64(len(x)) {
					return fmt.Errorf("%d ranks: coefficient %d is %v, want %v", size, c.Rank()*part+i, v, w)
				}
			}
			return nil
		})
	}
}
