package collective

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/treerun/treerun/topo/probe"
)

// TuneVariable is the environment variable that names the tuning file that
// New goes by, in place of the one that is kept for this host; "off" is none. What
// rank 0 has there counts.
const TuneVariable = "TREERUN_TUNE"

// TuningPath returns the file in which the Tuning of so many ranks on so many
// usable cores of this host is kept, in the user's cache directory. It need not
// exist.
func TuningPath(ranks, cores int) (string, error) {
	cache, err := probe.UserCache()
	if err != nil {
		return "", fmt.Errorf("collective: no place for a tuning file: %w (name one with %s)", err, TuneVariable)
	}
	return tuningPath(cache.Dir, ranks, cores), nil
}

// tuningPath names the file. Unlike a graph, a tuning outlives a reboot: it
// takes minutes to make, and rests on the processor more than on the moment.
func tuningPath(dir string, ranks, cores int) string {
	host, _ := os.Hostname() // without one the processor has to do
	id := sha256.Sum256(fmt.Appendf(nil, "tuning %d\n%s\n%s\n%d cores", TuningVersion, host, Processor(), cores))
	return filepath.Join(dir, fmt.Sprintf("tune-%x-n%d.json", id[:8], ranks))
}

// LoadTuning reads a tuning file for so many ranks and cores of this machine.
// One made for others is an error. errors.Is finds fs.ErrNotExist where there
// is no file.
func LoadTuning(file string, ranks, cores int) (*Tuning, error) {
	t, err := loadTuning(file)
	if err != nil {
		return nil, err
	}
	switch here := Processor(); {
	case t.Ranks != ranks:
		return nil, fmt.Errorf("it is for %d ranks, not %d", t.Ranks, ranks)
	case t.Cores != cores:
		return nil, fmt.Errorf("it is for %d cores, not %d", t.Cores, cores)
	case t.Processor != here:
		return nil, fmt.Errorf("it was measured on %q, this is %q", t.Processor, here)
	}
	return t, nil
}

func loadTuning(file string) (*Tuning, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer f.Close()
	// A FIFO or a device could make all ranks wait.
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxTuningBytes+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	return ParseTuning(data)
}

// withoutPath leaves out the name of the file, which the caller says.
func withoutPath(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Store writes t to file, whole or not at all, and makes the folders above it.
func (t *Tuning) Store(file string) error {
	data, err := t.AppendJSON(nil)
	if err != nil {
		return fmt.Errorf("collective: tuning: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("collective: tuning file: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".tune-*")
	if err != nil {
		return fmt.Errorf("collective: tuning file: %w", err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("collective: tuning file: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Processor names the processor of this host, for Tuning; the architecture
// where the kernel does not tell.
func Processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(text) {
		if name, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.ToValidUTF8(strings.TrimSpace(value), "?")
		}
	}
	return runtime.GOARCH
}

// readTuning puts the tuning file into rank 0's message. A file that
// TREERUN_TUNE names and that cannot be used fails New on all ranks; a kept one
// is passed over. It is of one host, and for its ranks alone.
func (s *setup) readTuning(h *hello) {
	_, part := s.w.(*group)
	if s.w.Rank() != 0 || s.w.Size() == 1 || part || !oneHost(hostsOf(s.w)) || s.cfg.plan != "" || s.cfg.shape != nil || s.cfg.tuning != nil {
		return
	}
	file := os.Getenv(TuneVariable)
	named := file != ""
	if file == "off" {
		return
	}
	if !named {
		cache := s.cfg.topoCache(s.w)
		if cache == nil {
			return
		}
		file = tuningPath(cache.Dir, s.w.Size(), s.cfg.cores)
	}
	t, err := LoadTuning(file, s.w.Size(), s.cfg.cores)
	if err == nil {
		h.Tuning, err = t.AppendJSON(nil)
		h.TuningFile = file
	}
	switch {
	case err == nil:
	case named:
		h.TuningFault = fmt.Sprintf("%s=%s: %v; make one with treerun bench --tune -np %d, or set it to off", TuneVariable, file, err, s.w.Size())
	case !errors.Is(err, fs.ErrNotExist) && s.w.Setting("verbose") != "":
		fmt.Fprintf(os.Stderr, "treerun: tuning file %s is passed over: %v\n", file, err)
	}
}

// takeTuning takes what rank 0 has read.
func (s *setup) takeTuning(h *hello) error {
	switch {
	case h.TuningFault != "":
		return fmt.Errorf("%w: %s", ErrArgument, h.TuningFault)
	case len(h.Tuning) == 0:
		return nil
	}
	t, err := ParseTuning(h.Tuning)
	if err == nil && t.Ranks != s.w.Size() {
		err = fmt.Errorf("it is for %d ranks", t.Ranks)
	}
	if err != nil {
		return fmt.Errorf("tuning from rank 0: %w", err)
	}
	s.cfg.tuning = tuningOf(t, h.TuningFile)
	return nil
}
