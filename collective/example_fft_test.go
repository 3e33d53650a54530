package collective_test

import (
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/treerun/treerun/collective"
)

// fft transforms n*n numbers in place. a has the part of this rank: rows of a matrix. The number of ranks divides n.
func fft(c *collective.Comm, a []complex128, n int) error {
	plan, rows, t := fourier.NewCmplxFFT(n), n/c.Size(), make([]complex128, len(a))
	for pass := range 3 { // a transposition each; that of pass 1 also multiplies by the powers of a root of 1
		for i, v := range a { // columns become rows, so that part p is for rank p
			t[i%n*rows+i/n] = v * cmplx.Rect(1, -2*math.Pi*float64(pass%2*(i%n)*(c.Rank()*rows+i/n))/float64(n*n))
		}
		if err := collective.AllToAll(ctx, c, t, t); err != nil {
			return err
		}
		for i, v := range t { // part p has columns p*rows and so on of all rows
			a[i/rows%rows*n+i/(rows*rows)*rows+i%rows] = v
		}
		for i := 0; i < len(a) && pass < 2; i += n {
			plan.Coefficients(a[i:i+n], a[i:i+n])
		}
	}
	return nil
}

// The Fourier transform of a vector, as a matrix whose rows are distributed: transforms of its columns, a product, and
// transforms of its rows, with transpositions in between. With mpi4py and numpy, whose operations are on whole
// matrices, it has 12 lines; here it has 18, with loops over elements. Both have one AllToAll.
func Example_fft() {
	onRanks(4, func(c *collective.Comm) error {
		const n = 32
		a := make([]complex128, n*n/c.Size())
		for i := range a {
			a[i] = cmplx.Rect(1, 2*math.Pi*5*float64(c.Rank()*len(a)+i)/(n*n)) // five periods
		}
		err := fft(c, a, n)
		if c.Rank() == 0 {
			fmt.Printf("%.0f at 4, %.0f at 5\n", cmplx.Abs(a[4]), cmplx.Abs(a[5]))
		}
		return err
	})
	// Output: 0 at 4, 1024 at 5
}
