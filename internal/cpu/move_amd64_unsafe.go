//go:build amd64 && !race

package cpu

import "unsafe"

func move(dst, src []byte) {
	if hasERMS {
		moveBytes(unsafe.SliceData(dst), unsafe.SliceData(src), len(src))
		return
	}
	copy(dst, src)
}

// moveBytes copies n bytes with REP MOVSB.
//
//go:noescape
func moveBytes(dst, src *byte, n int)
