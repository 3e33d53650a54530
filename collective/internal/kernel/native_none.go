//go:build !cgo

package kernel

const best = levelGo

func reduceNative(level, Op, DType, []byte, []byte, []byte) {
	panic("kernel: no C loops in a build without cgo")
}

func scaleNative(level, DType, []byte, int) {
	panic("kernel: no C loops in a build without cgo")
}
