package collective_test

import (
	"fmt"
	"math"
	"math/cmplx"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/treerun/treerun/collective"
)

// transpose returns this rank's rows of the transpose of a square matrix of side n, of which a has this rank's rows.
func transpose(c *collective.Comm, a []complex128, n int) ([]complex128, error) {
	rows := n / c.Size()
	send, recv := make([]complex128, len(a)), make([]complex128, len(a))
	for i, v := range a { // columns become rows, so that part p is for rank p
		send[i%n*rows+i/n] = v
	}
	err := collective.AllToAll(ctx, c, send, recv)
	for i, v := range recv { // part p has columns p*rows and so on of all rows
		send[i/rows%rows*n+i/(rows*rows)*rows+i%rows] = v
	}
	return send, err
}

// fft returns this rank's part of the transform of n*n numbers, of which a has this rank's part; the number of ranks
// divides n.
func fft(c *collective.Comm, a []complex128, n int) (_ []complex128, err error) {
	first, plan := c.Rank()*n/c.Size(), fourier.NewCmplxFFT(n)
	for pass := range 3 {
		if a, err = transpose(c, a, n); err != nil || pass == 2 {
			break
		}
		for i := 0; i < len(a); i += n {
			plan.Coefficients(a[i:i+n], a[i:i+n])
			for x := 0; x < n && pass == 0; x++ {
				a[i+x] *= cmplx.Rect(1, -2*math.Pi*float64((first+i/n)*x)/float64(n*n))
			}
		}
	}
	return a, err
}

// The Fourier transform of a vector, as a matrix whose rows are distributed: transforms of its columns, a product, and
// transforms of its rows, with transpositions in between. With mpi4py and numpy, whose operations are on whole
// matrices, transpose and fft have 12 lines; here they have 27, with loops over elements. Both have one AllToAll.
func Example_fft() {
	onRanks(4, func(c *collective.Comm) error {
		const n = 32
		a := make([]complex128, n*n/c.Size())
		for i := range a {
			a[i] = cmplx.Rect(1, 2*math.Pi*5*float64(c.Rank()*len(a)+i)/(n*n)) // five periods
		}
		a, err := fft(c, a, n)
		if c.Rank() == 0 {
			fmt.Printf("%.0f at 4, %.0f at 5\n", cmplx.Abs(a[4]), cmplx.Abs(a[5]))
		}
		return err
	})
	// Output: 0 at 4, 1024 at 5
}
