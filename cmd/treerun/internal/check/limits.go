package check

import (
	"fmt"
	"math"

	"github.com/treerun/treerun/internal/numbers"
)

// Limits is what the system lets this process have.
type Limits struct {
	Locked    uint64 // bytes of memory that may be locked; math.MaxUint64: any number
	Files     uint64 // open files, now
	MostFiles uint64 // and at most
	Cores     int    // of the machine that this process may run on
	Usable    int    // of these, by the time that its control group has
	Shared    error  // why no memory can be shared; nil: it can
	DevShm    int64  // size of /dev/shm in bytes, -1: there is none
}

// What jobs take.
const (
	lockedPerRank = 64 << 20 // bytes that ranks on GPUs pin: flags, staging between hosts
	filesPerRank  = 16       // of treerun and of a rank
	fewFiles      = 256
)

// check writes the lines about the limits. Ranks are as many as GPUs, or cores.
func (l Limits) check(p *printer, gpus int) {
	ranks := max(gpus, l.Usable)
	p.line(l.locked(gpus))
	p.line(l.files(ranks))
	p.line(l.shared())
	p.line(l.cores(gpus))
}

func (l Limits) locked(gpus int) Line {
	line := Line{Good, "locked memory", size(l.Locked), ""}
	if need := uint64(gpus) * lockedPerRank; l.Locked < need {
		line.State, line.Remedy = Wrong, "ulimit -l unlimited, LimitMEMLOCK=infinity, or docker --ulimit memlock=-1"
		line.Text += fmt.Sprintf(" for what %s pin, some %s", numbers.Count(gpus, "GPU"), size(need))
	}
	return line
}

func (l Limits) files(ranks int) Line {
	line := Line{Good, "open files", fmt.Sprintf("%d, at most %d", l.Files, l.MostFiles), ""}
	if need := uint64(fewFiles + filesPerRank*ranks); l.Files < need {
		line.State, line.Remedy = Wrong, fmt.Sprintf("ulimit -n %d", need)
		line.Text += fmt.Sprintf(": %d ranks take some %d", ranks, need)
	}
	return line
}

func (l Limits) shared() Line {
	text := "memory without a name (memfd), whatever the size of /dev/shm"
	if l.DevShm >= 0 {
		text += fmt.Sprintf(", which has %s", size(uint64(l.DevShm)))
	}
	if l.Shared != nil {
		return Line{Wrong, "shared memory", l.Shared.Error(),
			"a kernel with memfd_create, and a control group with memory to spare"}
	}
	return Line{Good, "shared memory", text, ""}
}

func (l Limits) cores(gpus int) Line {
	line := Line{Good, "cores", fmt.Sprintf("%d", l.Usable), ""}
	if l.Usable < l.Cores {
		line.Text = fmt.Sprintf("the time of %d, of %d that may be used", l.Usable, l.Cores)
	}
	if l.Usable < gpus {
		line.State, line.Remedy = Note, "a larger share of the machine: docker --cpus, cpuset, or the job's request"
		line.Text += fmt.Sprintf(": %s are fed by fewer cores", numbers.Count(gpus, "GPU"))
	}
	return line
}

// size writes a number of bytes.
func size(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for v >= 1024 && i < len(units)-1 {
		v, i = v/1024, i+1
	}
	return fmt.Sprintf("%.4g %s", v, units[i])
}
