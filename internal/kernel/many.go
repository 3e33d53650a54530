package kernel

// ReduceMany computes dst = srcs[0] op srcs[1] op ..., element by element and
// from left to right, in one pass over memory. Its result has the bits of
// repeated calls of Reduce: Float16 and BFloat16 are rounded after every step,
// not once at the end. Of one source it is a copy.
//
// All have the same length, a multiple of the element size, and may begin at any address. dst may be the very memory of
// one or more of the sources; it must not overlap them in part. With stream, a dst of 4 KiB or more is written past the
// caches: see Copy. ReduceMany does not allocate and does not keep srcs. Concurrent calls are safe if no call writes
// memory that another one uses.
func ReduceMany(op Op, dt DType, dst []byte, srcs [][]byte, stream bool) {
	if !fits(dt, dst) || !op.Takes(dt) || len(srcs) == 0 {
		refuse(op, dt, dst, srcs...)
	}
	for _, s := range srcs {
		if len(s) != len(dst) {
			refuse(op, dt, dst, srcs...)
		}
	}
	op, dt = op.on(dt)
	stream = stream && len(dst) >= streamBytes
	switch {
	case len(srcs) == 1:
		Copy(dst, srcs[0], stream)
	case len(srcs) == 2 && !stream:
		Reduce(op, dt, dst, srcs[0], srcs[1])
	case best == levelGo || (len(dst)+manyElements*dt.Size())*(len(srcs)-1) < crossover(dt)+manyElements*dt.Size():
		reduceManyGo(op, dt, dst, srcs)
	case len(srcs) <= maxNative:
		reduceManyNative(best, op, dt, dst, srcs, stream)
	default:
		reduceManyBlocks(best, op, dt, dst, srcs, stream)
	}
}

// manyElements is the number of elements that the Go loop could combine in the time that it takes to begin with another
// source.
const manyElements = 12

// reduceManyGo is ReduceMany in plain Go.
func reduceManyGo(op Op, dt DType, dst []byte, srcs [][]byte) {
	for _, s := range srcs[2:] {
		if base(s) == base(dst) { // would be overwritten before its turn
			reduceManyScratch(op, dt, dst, srcs)
			return
		}
	}
	const block = 4096 // stays in the first cache
	for at := 0; at < len(dst); at += block {
		part, n := base(dst[at:]), min(block, len(dst)-at)
		reduceBytes(op, dt, part, base(srcs[0][at:]), base(srcs[1][at:]), n)
		for _, s := range srcs[2:] {
			reduceBytes(op, dt, part, part, base(s[at:]), n)
		}
	}
}

// reduceManyScratch keeps partial results in memory of its own.
func reduceManyScratch(op Op, dt DType, dst []byte, srcs [][]byte) {
	var x [64]uint64
	for from := 0; from < len(dst); from += len(x) * 8 {
		to := min(from+len(x)*8, len(dst))
		part := BytesOf(x[:])[:to-from]
		reduceGo(op, dt, part, srcs[0][from:to], srcs[1][from:to])
		for _, s := range srcs[2:] {
			reduceGo(op, dt, part, part, s[from:to])
		}
		copy(dst[from:to], part)
	}
}

// reduceManyBlocks takes more sources than one call into C can. It goes over
// them in groups, block by block, with partial results in the first cache.
func reduceManyBlocks(l level, op Op, dt DType, dst []byte, srcs [][]byte, stream bool) {
	const block = 8192
	var x [block / 8]uint64
	for from := 0; from < len(dst); from += block {
		to := min(from+block, len(dst))
		part := BytesOf(x[:])[:to-from]
		var group [maxNative][]byte
		n := 0
		for i, s := range srcs {
			group[n] = s[from:to]
			n++
			switch {
			case i == len(srcs)-1:
				reduceManyNative(l, op, dt, dst[from:to], group[:n], stream)
			case n == maxNative:
				reduceManyNative(l, op, dt, part, group[:], false)
				group[0] = part
				n = 1
			}
		}
	}
}
