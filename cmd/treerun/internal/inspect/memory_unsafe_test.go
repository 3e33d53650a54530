//go:build linux

package inspect

import (
	"unsafe"

	"github.com/treerun/treerun/internal/status"
)

// memory returns memory for a page, which must be aligned.
func memory() []byte {
	words := make([]uint64, (status.Bytes+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
}
