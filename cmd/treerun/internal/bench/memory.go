package bench

import (
	"bytes"
	"fmt"
	"os"
)

// enoughMemory refuses what would make the kernel end a rank.
func enoughMemory(need int64, np int) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil // then the ranks find out
	}
	if have := available(text); have > 0 && need > have {
		const gib = 1 << 30
		return fmt.Errorf("bench: the buffers of %d ranks take %.1f GiB, and %.1f GiB of memory are free (give a smaller "+
			"-e or -np)",
			np, float64(need)/gib, float64(have)/gib)
	}
	return nil
}

// available returns the bytes that /proc/meminfo says a program can get, 0 when
// it does not.
func available(meminfo []byte) int64 {
	var kib int64
	_, after, _ := bytes.Cut(meminfo, []byte("MemAvailable:"))
	_, _ = fmt.Sscanf(string(after), "%d kB", &kib)
	return kib << 10
}
