package rank

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"time"
)

// profiler writes profiles of this rank, as the launcher's --pprof wants it: of the CPU rank-N.pprof, rank-N.2.pprof
// and so on, and of the heap heap-N.pprof. The runtime gives a profile of the CPU when it is stopped, and a rank may
// end at any time: so there are several, each as long as all before it together. What a rank that crashes leaves is at
// least half of what it did.
type profiler struct {
	dir  string
	rank int
	stop chan struct{} // asks run to end
	done chan struct{} // run has ended
}

// How long the first profile of the CPU takes, and the longest.
const (
	firstProfile   = time.Second
	longestProfile = 10 * time.Minute
)

// startProfiler begins to write profiles into a folder, "" for none.
func startProfiler(dir string, rank int) (*profiler, error) {
	if dir == "" {
		return nil, nil
	}
	p := &profiler{dir: dir, rank: rank, stop: make(chan struct{}), done: make(chan struct{})}
	err := os.MkdirAll(dir, 0o777)
	var file *os.File
	if err == nil {
		file, err = p.begin(1)
	}
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	go p.run(file)
	return p, nil
}

// begin starts the nth profile of the CPU.
func (p *profiler) begin(n int) (*os.File, error) {
	name := fmt.Sprintf("rank-%d.pprof", p.rank)
	if n > 1 {
		name = fmt.Sprintf("rank-%d.%d.pprof", p.rank, n)
	}
	file, err := os.Create(filepath.Join(p.dir, name))
	if err != nil {
		return nil, err
	}
	return file, pprof.StartCPUProfile(file)
}

// run writes one profile after the other.
func (p *profiler) run(file *os.File) {
	defer close(p.done)
	begin, next, ended := time.Now(), firstProfile, false
	for n := 2; ; n++ {
		select {
		case <-p.stop:
			ended = true
		case <-time.After(next):
		}
		pprof.StopCPUProfile()
		err := file.Close()
		if err == nil {
			err = p.heap()
		}
		if !ended && err == nil {
			next = min(time.Since(begin), longestProfile)
			file, err = p.begin(n)
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "treerun: rank %d: --pprof: %v; there are no more profiles of this rank\n", p.rank, err)
		}
		if ended || err != nil {
			return
		}
	}
}

// heap writes the profile of the heap, in place of the one before.
func (p *profiler) heap() error {
	file, err := os.Create(filepath.Join(p.dir, fmt.Sprintf("heap-%d.pprof", p.rank)))
	if err != nil {
		return err
	}
	defer file.Close()
	return pprof.WriteHeapProfile(file)
}

// close writes what is left.
func (p *profiler) close() {
	if p != nil {
		close(p.stop)
		<-p.done
	}
}
