//go:build linux

// Package check is the subcommand check: it checks whether this host can run jobs,
// on GPUs where it has some, and writes a line for each result, with a remedy for each
// fault. It tests the links between GPUs with ranks of its own, as jobs do. Only
// cmd/treerun imports it.
package check

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cmd/treerun/internal/host"
	"github.com/treerun/treerun/cmd/treerun/internal/output"
	"github.com/treerun/treerun/cmd/treerun/internal/place"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/iface"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo/gpu"
)

//go:embed help/check.txt
var help string

// State is the result of a check.
type State int

// The states. None is the last, and a mask of their bits: the state that another host sends may be any number.
const (
	Good State = iota
	Note
	Wrong
	None
)

var (
	stateWords  = []string{"ok", "note", "WRONG", "none"}
	stateColors = []output.Color{output.Green, output.Yellow, output.Red, ""}
)

// Line is the result of the check of one thing.
type Line struct {
	State  State
	What   string // in one or two words
	Text   string
	Remedy string // "" if there is none; not shown if State is Good
}

// write writes the line, in the colors that w shows.
func (l Line) write(w io.Writer) error {
	state := fmt.Sprintf("%-6s", stateWords[l.State&None])
	text := fmt.Sprintf("%s %-14s %s", state, l.What, l.Text)
	if l.Remedy != "" && l.State != Good {
		text += " (remedy: " + l.Remedy + ")"
	}
	text = output.Fold(w, text)[len(state):] + "\n"
	if c := stateColors[l.State&None]; c != "" {
		state = output.Paint(w, c, state)
	}
	_, err := io.WriteString(w, state+text)
	return err
}

// System reads the properties that check examines. In treerun it is this host.
type System struct {
	Devices func() (version string, devices Devices, err error) // the CUDA driver's version and devices
	Machine func() (*gpu.Machine, error)                        // the GPUs that NVML lists
	Kernel  func() (gpus int, err error)                        // the number of GPUs of the kernel's driver
	// the measurements of ranks on the GPUs; nil: the ranks have failed, and printed the reason
	Peers   func(m *gpu.Machine) (*peers.HostResult, error)
	Limits  func() Limits
	Network func() ([]iface.Device, error)
	MPS     bool // the CUDA Multi-Process Service serves the GPUs
}

// Devices are the GPUs that the CUDA driver shows, by UUID, each with the reason why streams cannot wait for values in
// its memory; nil: they can.
type Devices map[string]error

// Main runs the subcommand with the arguments after its name, and returns the exit
// code.
func Main(w io.Writer, args []string, h *System) (int, error) {
	showHelp := false
	f := cmdline.NewFlags("check", &showHelp)
	var where place.Options
	where.Define(f)
	f.Lookup("host").Usage = "check these `HOSTS`, each for its number of ranks: a:4,user@b:4,n[01-16] " +
		"(default: this host)"
	if err := cmdline.Parse(f, args, "np n: --ppn N on this host, -H HOST:N,... on several\n"); err != nil {
		return 0, cmdline.Usagef("check: %w", err)
	}
	if showHelp {
		_, err := fmt.Fprintf(w, help, cmdline.Usages(f))
		return 0, err
	}
	if f.NArg() > 0 {
		return 0, cmdline.Usagef("check: unexpected argument %q", f.Arg(0))
	}
	if _, err := where.Remote(); err != nil { // a variable that is no value of its flag is an error of the user
		return 0, err
	}
	var flags []string
	f.Visit(func(o *pflag.Flag) {
		if o.Name != "host" && o.Name != "hostfile" {
			flags = append(flags, "--"+o.Name+"="+o.Value.String())
		}
	})
	p, devices := &printer{w: w}, f.Lookup("iface").Value.String()
	if !where.NamesHosts() {
		for _, flag := range flags {
			if !strings.HasPrefix(flag, "--ppn=") && !strings.HasPrefix(flag, "--iface=") {
				return 0, cmdline.Usagef("check: %s needs -H or --hostfile", flag)
			}
		}
		h.check(p, where.PerHost, devices)
		return min(p.wrong, 1), p.err
	}
	list, _, err := where.Hosts(0, 0)
	if err != nil {
		return 0, err
	}
	checkHosts(p, list, flags, devices)
	return min(p.wrong, 1), p.err
}

// fact is a line that is compared with those of other hosts.
type fact struct {
	Line
	Same string // the part that should be equal on all hosts; "": it may differ
}

// printer writes lines as they arrive, and keeps them.
type printer struct {
	w     io.Writer
	lines []fact
	err   error
	wrong int
}

// add writes and keeps a line. If its state is Good, common is its text without the parts of this host only, and then
// the part of that text that should be equal on all hosts, for which the remedy is; without a second, all of the text.
func (p *printer) add(l Line, common ...string) {
	if l.State == Wrong {
		p.wrong++
	}
	if p.err == nil {
		p.err = l.write(p.w)
	}
	f := fact{Line: l}
	if l.State == Good && common != nil {
		f.Text, f.Same = common[0], common[len(common)-1]
	}
	p.lines = append(p.lines, f)
}

// check checks this host for the given number of ranks, 0: as many as GPUs, or cores; devices is the value of --iface.
func (h *System) check(p *printer, ranks int, devices string) {
	list, err := h.Network()
	spec, _ := iface.Parse(devices)              // the flag has done so
	offered, left, _ := iface.Choose(list, spec) // nothing is offered after an error
	h.Limits().check(p, h.gpus(p), ranks, len(offered))
	if err != nil {
		p.add(Line{Wrong, "network", err.Error(), "may this user read /sys and /proc/net?"})
		return
	}
	p.network(list, offered, left)
}

// network prints the devices over which ranks reach other hosts, and the addresses that ranks offer and leave out.
func (p *printer) network(list []iface.Device, offered, left []iface.Address) {
	if slices.ContainsFunc(list, func(d iface.Device) bool { return d.Kind == iface.Loopback && !d.Up }) {
		p.add(Line{Wrong, "network", "ranks on one host reach each other over lo: " + iface.List(list), "ip link set lo up"})
		return
	}
	if !slices.ContainsFunc(offered, func(a iface.Address) bool { return !a.IP.IsLoopback() }) {
		p.add(Line{Note, "network", "no address for other hosts: " + iface.List(list),
			"switch a device on, or name one with --iface"})
		return
	}
	var names, common []string
	var mtus []int
	for _, a := range offered {
		names = append(names, a.String())
		if a.Kind < iface.Bridge || offered[0].Kind >= iface.Bridge { // others are tried last
			common, mtus = append(common, fmt.Sprintf("%s (MTU %d)", a.Device, a.MTU)), append(mtus, a.MTU)
		}
	}
	slices.Sort(mtus)
	p.add(Line{Good, "network", strings.Join(names, ", "),
		"one MTU for all hosts and switches: ip link set DEVICE mtu N"},
		strings.Join(slices.Compact(common), ", "), fmt.Sprint(slices.Compact(mtus)))
	if text := iface.Surplus(left); text != "" {
		p.add(Line{Note, "network", fmt.Sprintf("ranks offer %d addresses and leave out %s", len(offered), text),
			"--iface chooses"})
	}
}

// Limits are the limits of the system for this process.
type Limits struct {
	Locked    uint64 // bytes of memory that may be locked; math.MaxUint64: any number
	Files     uint64 // open files, now
	MaxFiles  uint64 // and at most
	Processes uint64 // of this user, and threads
	Addresses uint64 // bytes of address space that a process may have
	Cores     int    // cores on which this process may run
	Usable    int    // of these, by the CPU time of its control group
	Shared    error  // why no memory can be shared; nil: it can
	DevShm    int64  // size of /dev/shm in bytes, -1: there is none
}

// The requirements of jobs.
const (
	lockedPerRank = 64 << 20 // bytes that ranks on GPUs pin: flags, staging between hosts
	filesPerRank  = 16       // of treerun and of a rank
	perAddress    = 4        // at least, of a rank: it listens at each, per communicator, and dials ranks over several
	fewFiles      = 256      // or threads, of all other processes
	threads       = 32       // of a rank
)

// check writes the lines about the limits. If ranks is 0, there are as many as GPUs, or cores. Each rank offers the
// given number of addresses.
func (l Limits) check(p *printer, gpus, ranks, addresses int) {
	ranks = cmp.Or(ranks, max(gpus, l.Usable))
	pinned := uint64(gpus) * lockedPerRank
	p.add(limitLine("locked memory", size(l.Locked), l.Locked, pinned,
		fmt.Sprintf(": %s pin about %s", numbers.Count(gpus, "GPU"), size(pinned)),
		"ulimit -l unlimited, LimitMEMLOCK=infinity, or docker --ulimit memlock=-1"))
	files, processes := uint64(fewFiles+max(filesPerRank, perAddress*addresses)*ranks), uint64(fewFiles+threads*ranks)
	p.add(limitLine("open files", fmt.Sprintf("%d, at most %d", l.Files, l.MaxFiles), l.Files, files,
		fmt.Sprintf(": about %d for %s", files, numbers.Count(ranks, "rank")), fmt.Sprintf("ulimit -n %d", files)))
	started := strings.Replace(fmt.Sprint(l.Processes), fmt.Sprint(uint64(math.MaxUint64)), size(math.MaxUint64), 1)
	p.add(limitLine("processes", started, l.Processes, processes,
		fmt.Sprintf(": up to %d for %s with threads", processes, numbers.Count(ranks, "rank")),
		"ulimit -u or docker --ulimit nproc"))
	p.add(limitLine("address space", size(l.Addresses), l.Addresses, host.MinAddressSpace,
		" for each process: treerun and its ranks need "+size(host.MinAddressSpace), "ulimit -v unlimited or LimitAS="))
	p.add(l.sharedLine())
	p.add(l.coresLine(gpus))
}

// limitLine returns the line about a limit, with less appended to its text if the limit is less than the need.
func limitLine(what, text string, limit, need uint64, shortfall, remedy string) Line {
	if limit < need {
		return Line{Wrong, what, text + shortfall, remedy}
	}
	return Line{Good, what, text, ""} // without the need: the number of ranks may differ between hosts
}

func (l Limits) sharedLine() Line {
	line := Line{Good, "shared memory", "memory without a name (memfd), whatever the size of /dev/shm",
		"a kernel with memfd_create, and a control group with memory to spare"}
	if l.DevShm >= 0 {
		line.Text += fmt.Sprintf(", which has %s", size(uint64(l.DevShm)))
	}
	if l.Shared != nil {
		line.State, line.Text = Wrong, l.Shared.Error()
	}
	return line
}

func (l Limits) coresLine(gpus int) Line {
	line := Line{Good, "cores", fmt.Sprintf("%d", l.Usable),
		"a larger share of the machine: docker --cpus, cpuset, or the job's request"}
	if l.Usable < l.Cores {
		line.Text = fmt.Sprintf("CPU time of %d, of %d usable ones", l.Usable, l.Cores)
	}
	if l.Usable < gpus {
		line.State = Note
		line.Text += fmt.Sprintf(": %s are fed by fewer cores", numbers.Count(gpus, "GPU"))
	}
	return line
}

// size formats a number of bytes.
func size(n uint64) string {
	if n == math.MaxUint64 {
		return "unlimited"
	}
	v, i := float64(n), 0
	for ; v >= 1024 && i < 4; i++ {
		v /= 1024
	}
	return fmt.Sprintf("%.4g %s", v, []string{"B", "KiB", "MiB", "GiB", "TiB"}[i])
}
