//go:build !amd64

package cpu

// PrefetchWrite does nothing on this processor.
func PrefetchWrite(*byte) {}
