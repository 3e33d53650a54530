// Package check is the subcommand check: it looks at whether this host can run jobs,
// on GPUs where it has some, and writes a line for each thing with the remedy for what
// is wrong. What GPUs can do for each other it finds out with ranks of its own, as
// jobs do. Only package cli below cmd/treerun imports it.
package check

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo/gpu"
)

//go:embed help/check.txt
var help string

// State is how something is.
type State int

// The states.
const (
	Good State = iota
	Note
	Wrong
	None
)

var (
	words  = []string{"ok", "note", "WRONG", "none"}
	colors = []output.Color{output.Green, output.Yellow, output.Red, ""}
)

// Line is about one thing.
type Line struct {
	State  State
	What   string // in one or two words
	Text   string
	Remedy string // "" where nothing needs one
}

// write writes the line, in the colors that w shows.
func (l Line) write(w io.Writer) error {
	state := fmt.Sprintf("%-6s", words[l.State])
	text := fmt.Sprintf("%s %-14s %s", state, l.What, l.Text)
	if l.Remedy != "" {
		text += " (remedy: " + l.Remedy + ")"
	}
	text = output.Fold(w, text)[len(state):] + "\n"
	if c := colors[l.State]; c != "" {
		state = output.Paint(w, c, state)
	}
	_, err := io.WriteString(w, state+text)
	return err
}

// Host is what check asks about. Package cli's is this very host.
type Host struct {
	Devices func() (version string, list []Device, err error) // the CUDA driver's version and devices
	Machine func() (*gpu.Machine, error)                      // what NVML says
	Kernel  func() (gpus int, err error)                      // how many GPUs the kernel's driver has
	// what ranks on the GPUs have measured; nil: they have failed, and said why
	Peers   func(m *gpu.Machine) (*peers.HostResult, error)
	Limits  func() Limits
	Network func() ([]iface.Device, error)
	MPS     bool // the CUDA Multi-Process Service serves the GPUs
}

// Device is a GPU as the CUDA driver sees it.
type Device struct {
	UUID   string
	MemOps error // why streams cannot wait for values in memory; nil: they can
}

// Main runs the subcommand with the arguments after its name, and returns the exit
// code.
func Main(w io.Writer, args []string, h *Host) (int, error) {
	showHelp := false
	f := cmdline.NewFlags("check", &showHelp)
	if err := cmdline.Parse(f, args, ""); err != nil {
		return 0, cmdline.Usagef("check: %w", err)
	}
	if showHelp {
		_, err := io.WriteString(w, help)
		return 0, err
	}
	if f.NArg() > 0 {
		return 0, cmdline.Usagef("check: unexpected argument %q", f.Arg(0))
	}
	p := &printer{w: w}
	gpus := h.gpus(p)
	h.Limits().check(p, gpus)
	h.network(p)
	if p.err != nil {
		return 0, p.err
	}
	if p.wrong > 0 {
		return 1, nil
	}
	return 0, nil
}

// printer writes lines as they come.
type printer struct {
	w     io.Writer
	err   error
	wrong int
}

func (p *printer) line(l Line) {
	if l.State == Wrong {
		p.wrong++
	}
	if p.err == nil {
		p.err = l.write(p.w)
	}
}

func (p *printer) text(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text)
	}
}

// network looks at the devices over which ranks reach other hosts.
func (h *Host) network(p *printer) {
	list, err := h.Network()
	if err != nil {
		p.line(Line{Wrong, "network", err.Error(), "may this user read /sys and /proc/net?"})
		return
	}
	offered, _, err := iface.Choose(list, iface.Spec{})
	if err != nil || len(offered) == 0 {
		p.line(Line{Note, "network", "no address for other hosts: " + iface.List(list),
			"switch a device on, or name one with --iface"})
		return
	}
	var names []string
	for _, a := range offered {
		names = append(names, a.String())
	}
	p.line(Line{Good, "network", strings.Join(names, ", "), ""})
}

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
