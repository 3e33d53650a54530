package probe

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/treerun/treerun/internal/cpu"
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
	for core, left := 0, cores.Count(); left > 0; core++ {
		if !cores.IsSet(core) {
			continue
		}
		left--
		text := cpu.Read(os.DirFS("/"), core, file)
		if text == "" || same != "" && text != same {
			return ""
		}
		same = text
	}
	return same
}
