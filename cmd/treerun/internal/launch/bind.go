package launch

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"
)

// Bind says on which cores the ranks of a job may run.
type Bind int

// What --bind-to takes.
const (
	BindAuto Bind = iota // as BindCore, unless there are more ranks than cores
	BindCore             // each rank on its own share of the cores, or on one that it shares
	BindNone             // wherever the kernel puts it
)

// CoresSetting is the name of the setting with the number of cores that the
// ranks of a host have together: a rank that is bound sees its own only.
const CoresSetting = "cores"

// cores returns the numbers of the cores that this thread may use, in order.
func cores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var all []int
	for cpu, left := 0, set.Count(); left > 0; cpu++ {
		if set.IsSet(cpu) {
			all = append(all, cpu)
			left--
		}
	}
	return all, nil
}

// shareOf returns the cores of a rank: neighbours, as many for each, and one
// more for some ranks where that does not come out even; or one that other
// ranks have too, where there are more ranks than cores.
func shareOf(cores []int, rank, size int) []int {
	n := len(cores)
	if size > n {
		return cores[rank%n : rank%n+1]
	}
	return cores[rank*n/size : (rank+1)*n/size]
}

// planBinding decides on the binding, once per job: the cores to share out, nil
// for none.
func (j *Job) planBinding() []int {
	all, err := cores()
	if err != nil || j.Bind == BindNone || j.Bind == BindAuto && (j.Size > len(all) || j.Cores < len(all)) {
		return nil // a share of the time of all cores, as in a container, is not one of some cores
	}
	return all
}

// bound calls start with this thread bound to the cores of a rank, which the
// rank inherits.
func (sp *spawner) bound(rank int, start func() error) error {
	if sp.cores == nil {
		return start()
	}
	var mine, before unix.CPUSet
	for _, cpu := range shareOf(sp.cores, rank, sp.job.Size) {
		mine.Set(cpu)
	}
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	if err := unix.SchedSetaffinity(0, &mine); err != nil {
		return fmt.Errorf("bind to core %v: sched_setaffinity: %w (hint: --bind-to none)", shareOf(sp.cores, rank, sp.job.Size), err)
	}
	err := start()
	if back := unix.SchedSetaffinity(0, &before); back != nil && err == nil {
		sp.job.Trace("sched_setaffinity: %v", back)
	}
	return err
}

// settings returns the settings of the job with what launch adds.
func (j *Job) settings() map[string]string {
	all := map[string]string{CoresSetting: strconv.Itoa(j.Cores)}
	for name, v := range j.Settings {
		all[name] = v
	}
	return all
}
