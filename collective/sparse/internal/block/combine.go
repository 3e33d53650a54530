package block

import (
	"github.com/treerun/treerun/internal/kernel"
)

// ZeroCounts reports whether the +0 of a block that a rank has not sent may change the values of other ranks: adding 0
// changes no integer.
func ZeroCounts(op kernel.Op, dt kernel.DType) bool { return op != kernel.Sum || dt.Float() }

// farBytes is the minimum size of results that are written past the caches: larger than the nearest cache, and not read
// soon.
const farBytes = 4 << 20

// Far reports whether blocks of a tensor are written past the caches.
func Far(tensor []byte) bool { return len(tensor) >= farBytes }

// listed is the number of words of a list of pieces that are processed at once.
const listed = 16 << 10

// Zero writes zeros to the blocks of a tensor that are not in union. list provides memory, and is empty.
func Zero(list *kernel.Pieces, dt kernel.DType, g Grid, tensor []byte, union Set) {
	add := func(b, n, over int) {
		switch from, to := g.Range(b, n); {
		case from >= to:
		case !Far(tensor):
			clear(tensor[from:to])
		default:
			list.Add(from, to-from, 0, true)
		}
		if list.Len() > over {
			list.Run(kernel.Sum, dt, tensor, nil, true)
			list.Reset()
		}
	}
	at := 0
	for b, n := union.Run(0); n > 0; b, n = union.Run(b + n) {
		add(at, b-at, listed)
		at = b + n
	}
	add(at, g.Blocks()-at, 0)
}
