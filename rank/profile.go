package rank

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"sync"
	"time"
)

// profiler writes profiles of this rank, in the files of the launcher's --pprof: of the CPU rank-N.pprof,
// rank-N.2.pprof and so on, and of the heap heap-N.pprof. The runtime returns a profile of the CPU when it is stopped,
// and a rank may end at any time: so there are several, each as long as all before it together. The profiles of a rank
// that crashes cover at least half of its run.
type profiler struct {
	dir   string
	rank  int
	begin time.Time

	mu   sync.Mutex
	n    int      // number of CPU profiles begun
	file *os.File // of the CPU profile under way; nil: there is none
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
	p := &profiler{dir: dir, rank: rank, begin: time.Now()}
	err := os.MkdirAll(dir, 0o777)
	if err == nil {
		err = p.start(firstProfile)
	}
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	return p, nil
}

// start begins the next profile of the CPU.
func (p *profiler) start(long time.Duration) error {
	name := fmt.Sprintf("rank-%d.pprof", p.rank)
	if p.n++; p.n > 1 {
		name = fmt.Sprintf("rank-%d.%d.pprof", p.rank, p.n)
	}
	file, err := os.Create(filepath.Join(p.dir, name))
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return errors.Join(err, file.Close())
	}
	p.file = file
	time.AfterFunc(long, func() { p.rotate(false) })
	return nil
}

// rotate ends the profile of the CPU, writes that of the heap, and begins the next one, unless last is set.
func (p *profiler) rotate(last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil {
		return
	}
	pprof.StopCPUProfile()
	err := p.file.Close()
	p.file = nil
	heap, heapErr := os.Create(filepath.Join(p.dir, fmt.Sprintf("heap-%d.pprof", p.rank)))
	if heapErr == nil {
		heapErr = errors.Join(pprof.WriteHeapProfile(heap), heap.Close())
	}
	if err = errors.Join(err, heapErr); err == nil && !last {
		err = p.start(min(time.Since(p.begin), longestProfile))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "treerun: rank %d: --pprof: %v; there are no more profiles of this rank\n", p.rank, err)
	}
}
