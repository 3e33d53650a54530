package probe

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Here returns the place of the calling thread.
func Here() (p Place) {
	var cores unix.CPUSet
	if unix.SchedGetaffinity(0, &cores) != nil {
		return p
	}
	p.Bound = cores.Count() == 1
	for i, file := range levels {
		p.Share[i] = sharing(&cores, file)
	}
	return p
}

// sharing returns the contents of a system file that every one of some cores has, "" where these differ.
func sharing(cores *unix.CPUSet, file string) (same string) {
	for cpu, left := 0, cores.Count(); left > 0; cpu++ {
		if !cores.IsSet(cpu) {
			continue
		}
		left--
		text, err := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/%s", cpu, file))
		if err != nil || same != "" && string(text) != same {
			return ""
		}
		same = string(text)
	}
	return same
}
