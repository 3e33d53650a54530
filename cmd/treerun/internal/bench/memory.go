package bench

import (
	"bytes"
	"fmt"
	"os"
)

// enoughMemory returns an error for a job because of which the kernel would end a rank.
func enoughMemory(need int64, np int) error {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return nil // then the ranks notice
	}
	if have := available(text); have > 0 && need > have {
		const gib = 1 << 30
		return fmt.Errorf("bench: the buffers of %d ranks take %.1f GiB, and %.1f GiB of memory are free (give a smaller "+
			"-e or -np)",
			np, float64(need)/gib, float64(have)/gib)
	}
	return nil
}

// available returns the available memory of /proc/meminfo in bytes, 0 where it is missing.
func available(meminfo []byte) int64 {
	var kib int64
	_, after, _ := bytes.Cut(meminfo, []byte("MemAvailable:"))
	_, _ = fmt.Sscanf(string(after), "%d kB", &kib)
	return kib << 10
}
