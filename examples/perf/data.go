package main

// number holds the element types that are measured.
type number interface{ float32 | float64 | int32 }

// width returns the size of T in bytes.
func width[T number]() int {
	var zero T
	if _, double := any(zero).(float64); double {
		return 8
	}
	return 4
}

// period is the number of different elements of a buffer. It divides no power
// of two, so a chunk that lands at a wrong place is seen.
const period = 13

// input is the element at index i of a rank's buffer: a small integer, so that
// sums are exact in every type.
func input(rank, i int) int { return (i%period*3+rank*5)%period + 1 }

// total is the sum of input over np ranks.
func total(np, i int) int {
	sum := 0
	for rank := range np {
		sum += input(rank, i)
	}
	return sum
}

// fill writes a rank's input.
func fill[T number](buf []T, rank int) {
	var table [period]T
	for i := range table {
		table[i] = T(input(rank, i))
	}
	for i := range buf {
		buf[i] = table[i%period]
	}
}

// differences counts the elements that are not want(index); want has period
// period.
func differences[T number](buf []T, want func(i int) int) int64 {
	var table [period]T
	for i := range table {
		table[i] = T(want(i))
	}
	var n int64
	for i, v := range buf {
		if v != table[i%period] {
			n++
		}
	}
	return n
}
