//go:build !amd64 || race

package cpu

func move(dst, src []byte) { copy(dst, src) } // the race detector does not see the accesses of assembly
