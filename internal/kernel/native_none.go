//go:build !cgo || !linux

package kernel

const (
	best      = levelGo
	maxNative = 8
)

const noNative = "kernel: no C loops in a build without cgo"

func reduceNative(level, Op, DType, []byte, []byte, []byte) { panic(noNative) }

func reduceManyNative(level, Op, DType, []byte, [][]byte, bool) { panic(noNative) }

func piecesNative(level, Op, DType, []byte, [][]byte, []uint64, bool) { panic(noNative) }

func multiplyNative(level, DType, []byte, []byte, Factor) { panic(noNative) }

func divideNative(level, DType, []byte, int) { panic(noNative) }

func streamNative(level, []byte, []byte) { panic(noNative) }

func nonZeroNative(level, []byte, int, uint64, []uint64) bool { panic(noNative) }
