package status

import "unsafe"

// bytesOf returns the bytes of words: memory for a page is aligned.
func bytesOf(words []uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))
}
