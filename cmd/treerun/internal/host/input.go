//go:build linux

package host

import (
	"io"
	"os"
	"slices"
	"sync"
)

// Input copies one stdin to several readers. The slowest of them sets the pace. One that has closed its stdin, or has
// ended, gets no more, and does not hold up the others. Its methods may be called concurrently.
type Input struct {
	mu    sync.Mutex
	to    []io.WriteCloser
	ended bool
}

// Add adds a reader, which gets the input that is copied from now on.
func (in *Input) Add(w io.WriteCloser) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended {
		_ = w.Close()
		return
	}
	in.to = append(in.to, w)
}

// readers returns those that there are now.
func (in *Input) readers() []io.WriteCloser {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.to)
}

// Copy copies until src ends or, unless more readers may come, there is none. It closes the writing ends.
func (in *Input) Copy(src io.Reader, more bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		for _, w := range in.readers() {
			if _, failed := w.Write(buf[:n]); failed != nil {
				in.remove(w)
			}
		}
		if err != nil || !more && len(in.readers()) == 0 {
			break
		}
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	for _, w := range in.to {
		_ = w.Close() // the reader has everything that was written
	}
}

func (in *Input) remove(w io.WriteCloser) {
	_ = w.Close()
	in.mu.Lock()
	defer in.mu.Unlock()
	in.to = slices.DeleteFunc(in.to, func(other io.WriteCloser) bool { return other == w })
}

// copyInput begins to copy the stdin of the host to all of its ranks, for --stdin all.
func copyInput(h *Host) {
	if h.input == nil || h.copying {
		return
	}
	h.copying = true
	in, p, more := h.input, h.program, h.job.Again
	go func() {
		in.Copy(p.Stdin, more)
		if p.Pipe {
			_ = p.Stdin.Close() // its writer gets an error
		}
	}()
}

// stdin returns the file that a rank gets as its stdin. It is for that rank alone where own is true.
func (sp *spawner) stdin(rank int) (file *os.File, own bool, err error) {
	h := sp.host
	switch {
	case h.input != nil:
		r, w, err := os.Pipe()
		if err == nil {
			h.input.Add(w)
		}
		return r, true, err
	case rank == h.program.Reader && h.program.Stdin != nil:
		return h.program.Stdin, false, nil
	}
	return sp.null, false, nil
}
