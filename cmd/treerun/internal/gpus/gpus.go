// Package gpus assigns the GPUs of this host to the ranks of a job. Its input is the
// GPUs of NVML, CUDA_VISIBLE_DEVICES and the flags --gpus, --gpu-bind and
// --ranks-per-gpu; it opens no CUDA driver and runs nothing on a GPU. Every host of
// a job calls it for its own ranks. Only the packages below cmd/treerun import it.
package gpus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/cmdline"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/nvml"
	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo/gpu"
)

// Bind is the set of GPUs of their host that ranks see.
type Bind int

// The values of --gpu-bind.
const (
	Visible Bind = iota // all GPUs; TREERUN_DEVICE names the rank's own
	Isolate             // CUDA_VISIBLE_DEVICES shows each rank its own GPU only
	None                // ranks get no GPU, and their environment is left alone
)

// Request holds the user's settings for the GPUs of every host.
type Request struct {
	Bind   Bind
	PerGPU int    // ranks on one GPU; 0: one, and no rank gets a GPU where there are more ranks than GPUs
	List   string // GPUs that may be used; "": all that are visible
}

// MaxPerGPU bounds PerGPU.
const MaxPerGPU = 1024

// maxList bounds List, in bytes.
const maxList = 16 << 10

// Check reports an error if the request is invalid.
func (r *Request) Check() error {
	switch {
	case r.Bind < Visible || r.Bind > None:
		return fmt.Errorf("invalid value %d of --gpu-bind", int(r.Bind))
	case r.PerGPU < 0 || r.PerGPU > MaxPerGPU:
		return fmt.Errorf("--ranks-per-gpu %d: want 1 to %d", r.PerGPU, MaxPerGPU)
	case len(r.List) > maxList:
		return fmt.Errorf("--gpus: a list of %d bytes, at most %d are possible", len(r.List), maxList)
	case r.Bind == None && (r.PerGPU > 0 || r.List != ""):
		return errors.New("--gpu-bind none gives ranks no GPU: it cannot be combined with --gpus and --ranks-per-gpu")
	}
	if _, err := parseList(r.List); err != nil && r.List != "" {
		return fmt.Errorf("--gpus: %w", err)
	}
	return nil
}

// explicit reports whether the user has requested GPUs.
func (r *Request) explicit() bool { return r.PerGPU > 0 || r.List != "" || r.Bind == Isolate }

// Plan is the assignment of GPUs to the ranks of a host.
type Plan struct {
	Ranks  []Rank // by local rank; nil: no rank has a GPU
	Notice string // why ranks have no GPUs although the host has some; "": they have, or the host has none
}

// Rank is what a rank gets of its host's GPUs.
type Rank struct {
	GPU     *gpu.GPU // nil: none
	Visible string   // the value of its CUDA_VISIBLE_DEVICES; "": the variable is unchanged
}

// Share describes which ranks of a machine are those of this host.
type Share struct {
	Ranks int // of this host
	First int // ranks of hosts before this one that are the same machine, as containers may be
	Total int // ranks of all hosts that are this machine
}

// Assign returns the Plan for the ranks of this host. Hosts that are one machine take different
// GPUs of it if it has enough for all of them; otherwise each may have GPUs of its
// own. env is the ranks' environment, from which Assign reads CUDA_VISIBLE_DEVICES. A host
// without GPUs has an empty Plan; it is an error if the user has requested GPUs. An error
// carries its exit code.
func Assign(r Request, ranks Share, env []string) (*Plan, error) {
	if r.Bind == None {
		return new(Plan), nil
	}
	m, err := readMachine()
	if err != nil {
		return withoutNVML(r, err)
	}
	return assign(r, ranks, m, visibleDevicesIn(env))
}

// readMachine is nvml.Read; tests replace it to get other machines.
var readMachine = nvml.Read

// withoutNVML returns the Plan when NVML cannot be used. A host on which the kernel knows no
// GPU has none.
func withoutNVML(r Request, err error) (*Plan, error) {
	n, _ := cuda.HostGPUs()
	if r.explicit() {
		return nil, fmt.Errorf("assign GPUs to ranks: %w", err)
	}
	if n > 0 {
		return &Plan{Notice: fmt.Sprintf("the host has GPUs (%d), but ranks get none: %v (use --gpu-bind none if they "+
			"need none)", n, err)}, nil
	}
	return new(Plan), nil
}

func assign(r Request, s Share, m *gpu.Machine, visible visibleDevices) (*Plan, error) {
	usable, err := usable(r, m, visible)
	if err != nil {
		return nil, cmdline.Usagef("%w", err)
	}
	if len(usable) == 0 {
		if r.explicit() {
			return nil, fmt.Errorf("assign GPUs to ranks: this host has none that can be used%s",
				unusableReason(m, visible))
		}
		return new(Plan), nil
	}
	perGPU := max(1, r.PerGPU)
	capacity := len(usable) * perGPU
	if s.Ranks > capacity {
		need := (s.Ranks + len(usable) - 1) / len(usable)
		text := fmt.Sprintf("%d ranks and %s: --ranks-per-gpu %d lets them share", s.Ranks, numbers.Count(len(usable), "GPU"),
			need)
		if r.explicit() {
			return nil, cmdline.Usagef("%s", text)
		}
		return &Plan{Notice: text + "; now they get none (use --gpu-bind none if they need none)"}, nil
	}
	if s.Total > capacity {
		s.First = 0
	}
	var listed []string
	for i := 0; i < len(usable) && r.List != ""; i++ {
		listed = append(listed, usable[i].UUID)
	}
	p, shown := new(Plan), strings.Join(listed, ",")
	for i := range s.Ranks {
		own := Rank{&usable[(s.First+i)/perGPU], shown}
		if r.Bind == Isolate {
			own.Visible = own.GPU.UUID
		}
		p.Ranks = append(p.Ranks, own)
	}
	return p, nil
}

// usable returns the GPUs that ranks may get, in the order of the ranks.
func usable(r Request, m *gpu.Machine, visible visibleDevices) ([]gpu.GPU, error) {
	full := slices.DeleteFunc(slices.Clone(m.GPUs), func(g gpu.GPU) bool { return g.MIG })
	all := gpu.InOrder(full)
	switch {
	case r.List != "":
		list, _ := parseList(r.List) // Check has seen it
		picked, err := pick(list, m)
		if err != nil {
			return nil, fmt.Errorf("--gpus %s: %w", r.List, err)
		}
		return picked, nil
	case visible.set:
		picked, err := visible.pick(all)
		if err != nil {
			return nil, fmt.Errorf("CUDA_VISIBLE_DEVICES=%s: %w", visible.value, err)
		}
		return gpu.InOrder(picked), nil
	}
	return all, nil
}

// unusableReason returns the reason why none of the existing GPUs can be used.
func unusableReason(m *gpu.Machine, visible visibleDevices) string {
	switch {
	case len(m.GPUs) == 0:
		return ""
	case visible.set:
		return fmt.Sprintf(": CUDA_VISIBLE_DEVICES=%s hides all %d", visible.value, len(m.GPUs))
	}
	return fmt.Sprintf(": all %d are cut into MIG instances, which treerun does not use (hint: nvidia-smi -mig 0)",
		len(m.GPUs))
}

// Count returns the number of ranks on this host when the user gives none and every rank gets a
// GPU: the number of GPUs that ranks may use, times the number of ranks that share one.
func Count(r Request, env []string) (int, error) {
	if r.Bind == None {
		return 0, nil
	}
	m, err := readMachine()
	if err != nil {
		if n, hostErr := cuda.HostGPUs(); hostErr != nil || n > 0 {
			return n * max(1, r.PerGPU), hostErr
		}
		return 0, nil
	}
	list, err := usable(r, m, visibleDevicesIn(env))
	return len(list) * max(1, r.PerGPU), err
}

// visibleDevices is an environment variable.
type visibleDevices struct {
	value    string
	set      bool
	pciOrder bool // CUDA_DEVICE_ORDER is PCI_BUS_ID
}

// visibleDevicesIn finds CUDA_VISIBLE_DEVICES.
func visibleDevicesIn(env []string) (v visibleDevices) {
	for _, e := range env {
		switch name, value, _ := strings.Cut(e, "="); name {
		case "CUDA_VISIBLE_DEVICES":
			v.value, v.set = value, true
		case "CUDA_DEVICE_ORDER":
			v.pciOrder = value == "PCI_BUS_ID"
		}
	}
	return v
}

// parseList reads the value of --gpus: numbers, ranges of them, beginnings of UUIDs
// and PCI addresses, separated by commas. The words that it returns have no ranges.
func parseList(list string) (words []string, err error) {
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		names := []string{part}
		if !strings.HasPrefix(strings.ToUpper(part), "GPU-") && !strings.Contains(part, ":") {
			if names, err = numbers.ExpandNames("["+part+"]", gpu.MaxGPUs); err != nil {
				return nil, fmt.Errorf("%q is not a GPU: want numbers as in nvidia-smi, ranges, UUIDs or PCI addresses, as "+
					"in 0-3,GPU-5f1c; treerun does not use MIG instances", part)
			}
		}
		if words = append(words, names...); len(words) > gpu.MaxGPUs {
			return nil, fmt.Errorf("more than %d GPUs", gpu.MaxGPUs)
		}
	}
	return words, nil
}

// pick returns the GPUs of a list, in its order.
func pick(list []string, m *gpu.Machine) ([]gpu.GPU, error) {
	var picked []gpu.GPU
	for _, w := range list {
		g, err := find(w, m)
		if err != nil {
			return nil, err
		}
		if g.MIG {
			return nil, fmt.Errorf("GPU %d is cut into MIG instances, which treerun does not use (hint: nvidia-smi -i %d -mig "+
				"0)", g.Index, g.Index)
		}
		if slices.ContainsFunc(picked, func(p gpu.GPU) bool { return p.UUID == g.UUID }) {
			return nil, fmt.Errorf("GPU %d (%s) is given twice (--ranks-per-gpu lets ranks share one)", g.Index, g.UUID)
		}
		picked = append(picked, *g)
	}
	return picked, nil
}

func find(word string, m *gpu.Machine) (*gpu.GPU, error) {
	var found *gpu.GPU
	for i := range m.GPUs {
		g := &m.GPUs[i]
		if word != strconv.Itoa(g.Index) && gpu.NormalPCI(word) != g.PCI &&
			!strings.HasPrefix(strings.ToLower(g.UUID), strings.ToLower(word)) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s is the beginning of several UUIDs", word)
		}
		found = g
	}
	if found == nil {
		return nil, fmt.Errorf("this host has no GPU %s: it has %s (hint: nvidia-smi -L lists them)", word,
			numbers.Count(len(m.GPUs), "GPU"))
	}
	return found, nil
}

// pick returns the GPUs that CUDA_VISIBLE_DEVICES shows. As CUDA does, it reads
// numbers and beginnings of UUIDs up to the first that names no GPU. Numbers count
// GPUs in CUDA's own order, the fastest first, which is that of PCI only with
// CUDA_DEVICE_ORDER or if all GPUs are of the same kind.
func (v visibleDevices) pick(all []gpu.GPU) ([]gpu.GPU, error) {
	byPCI := slices.Clone(all)
	slices.SortFunc(byPCI, func(a, b gpu.GPU) int { return cmp.Compare(a.PCI, b.PCI) })
	sameKind := !slices.ContainsFunc(all, func(g gpu.GPU) bool { return g.Name != all[0].Name })
	var picked []gpu.GPU
	for part := range strings.SplitSeq(v.value, ",") {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "MIG-") {
			return nil, errors.New("treerun does not use MIG instances (--gpu-bind none gives ranks no GPU)")
		}
		i, err := strconv.Atoi(part)
		if err == nil && !sameKind && !v.pciOrder {
			return nil, errors.New("the GPUs differ, so only CUDA knows which has this number: give UUIDs, set " +
				"CUDA_DEVICE_ORDER=PCI_BUS_ID, or use --gpus")
		}
		if err != nil {
			i = slices.IndexFunc(byPCI, func(g gpu.GPU) bool { return part != "" && strings.HasPrefix(g.UUID, part) })
		}
		if i < 0 || i >= len(byPCI) {
			break // as CUDA does
		}
		if slices.ContainsFunc(picked, func(g gpu.GPU) bool { return g.UUID == byPCI[i].UUID }) {
			return nil, fmt.Errorf("%s is given twice: CUDA then shows no GPU", part)
		}
		picked = append(picked, byPCI[i])
	}
	return picked, nil
}
