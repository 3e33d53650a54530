package kernel

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestScale(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for dt := range DTypes {
		if !Avg.Takes(dt) {
			continue
		}
		for n := range 131 {
			for _, divisor := range []int{3, 7, 255, 65536, 1<<62 + 1} {
				a := guarded(n*dt.Size(), r.IntN(64))
				fill(r, dt, a.data())
				want := oracleScale(dt, a.data(), divisor)
				for _, l := range levels() {
					got := a.clone()
					scaleAt(l, dt, got.data(), divisor)
					got.expect(t, fmt.Sprintf("%d %v / %d with %v", n, dt, divisor, l), want)
				}
			}
		}
	}
}

// The multiples of a divisor and their neighbors are where a quotient that is
// only nearly right would show.
func TestScaleNextToMultiples(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, dt := range []DType{Int8, Uint8, Int16, Uint16, Int32, Uint32, Int64, Uint64} {
		for range 2000 {
			divisor := 2 + int(r.Uint64()>>(1+r.IntN(62)))
			a := make([]byte, 3*dt.Size())
			multiple := r.Uint64() / uint64(divisor) * uint64(divisor)
			if dt.Size() < 8 {
				divisor = 2 + divisor%(1<<(8*dt.Size()-1))
				multiple = r.Uint64() >> (64 - 8*dt.Size()) / uint64(divisor) * uint64(divisor)
			}
			for i := range 3 {
				store(dt, a[i*dt.Size():], multiple+uint64(i)-1)
			}
			want := oracleScale(dt, a, divisor)
			for _, l := range levels() {
				got := bytes.Clone(a)
				if scaleAt(l, dt, got, divisor); !bytes.Equal(got, want) {
					t.Fatalf("%v % x / %d with %v: % x, want % x", dt, a, divisor, l, got, want)
				}
			}
		}
	}
}

func TestIntegerAverageTruncatesTowardZero(t *testing.T) {
	for _, c := range []struct{ sum, n, want int8 }{{-7, 2, -3}, {7, 2, 3}, {-1, 2, 0}, {-128, 127, -1}, {127, 127, 1}} {
		b := []byte{byte(c.sum)}
		if Scale(Int8, b, int(c.n)); int8(b[0]) != c.want {
			t.Errorf("%d / %d = %d, want %d", c.sum, c.n, int8(b[0]), c.want)
		}
	}
	b := []byte{0x80} // -128 / 300 must not see 300 as an int8
	if Scale(Int8, b, 300); b[0] != 0 {
		t.Errorf("-128 / 300 = %d, want 0", int8(b[0]))
	}
}

// multiplyAt runs one implementation, whatever the size.
func multiplyAt(l level, dt DType, dst, src []byte, factor Factor) {
	if l == levelGo {
		multiplyGo(dt, dst, src, factor)
	} else {
		multiplyNative(l, dt, dst, src, factor)
	}
}

func TestScaleCopyIsProdWithOneElement(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for dt := range DTypes {
		if !Avg.Takes(dt) {
			continue
		}
		for n := range 131 {
			src := guarded(n*dt.Size(), r.IntN(64))
			fill(r, dt, src.data())
			var factor Factor
			for i := range factor {
				factor[i] = byte(r.Uint32()) // bytes beyond the element, too
			}
			fill(r, dt, factor[:dt.Size()])
			want := oracleReduce(Prod, dt, src.data(), bytes.Repeat(factor[:dt.Size()], n))
			for _, l := range levels() {
				name := fmt.Sprintf("%d %v * % x with %v", n, dt, factor, l)
				dst := guarded(n*dt.Size(), r.IntN(64))
				multiplyAt(l, dt, dst.data(), src.data(), factor)
				dst.expect(t, name, want)
				inPlace := src.clone()
				multiplyAt(l, dt, inPlace.data(), inPlace.data(), factor)
				inPlace.expect(t, name+", in place", want)
			}
			dst := guarded(n*dt.Size(), r.IntN(64))
			ScaleCopy(dt, dst.data(), src.data(), factor)
			dst.expect(t, fmt.Sprintf("ScaleCopy of %d %v", n, dt), want)
		}
	}
}
