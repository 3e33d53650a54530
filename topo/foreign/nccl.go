package foreign

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/topo/gpu"
)

// known has the elements of NCCL's XML, and of RCCL's, that are read or that mean nothing to the rates between the GPUs
// of a host, with their attributes. Attributes of a network card are its own, whatever they are.
var known = map[string][]string{
	"system": {"version"},
	"cpu":    {"numaid", "affinity", "arch", "vendor", "familyid", "modelid", "host_hash"},
	"pci": {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed", "link_width",
		"keep"},
	"gpu":    {"dev", "sm", "rank", "gdr", "gcn", "arch", "keep"},
	"nvlink": {"target", "count", "tclass"},
	"c2c":    {"bw", "count"},
	"nic":    nil, "net": nil,
}

// pciClasses has the classes of PCI devices in such files: bridges and NVSwitches, display controllers, Ethernet and
// InfiniBand cards, storage, accelerators.
var pciClasses = []string{"0x0604", "0x0680", "0x0300", "0x0302", "0x0380", "0x0200", "0x0207", "0x0c06", "0x0108",
	"0x1200"}

// Classes of the other end of an NVLink.
const (
	classSwitch = "0x068000"
	classCPU    = "0x068001"
	classGPU    = "0x03" // the start
)

// found is a GPU with its place in the file.
type found struct {
	at    *element // its <gpu>
	cpu   int
	above []string // addresses of the PCIe devices above it, from the CPU on
	gpu   gpu.GPU
	dev   int
	rank  int // -1: not given
	sm    int // 0: not known
}

// readXML reads NCCL's XML.
func (h *host) readXML(data []byte) error {
	root, err := parseTree(data)
	if err != nil {
		return err
	}
	if root.name != "system" {
		return root.errorf("want <system>, the topology of a host as NCCL writes it")
	}
	if v := root.text("version"); v != "" && v != "1" && v != "2" {
		h.note("version %.20q of the file is not known: read as version 1 and 2", v)
	}
	h.unknown(root)
	var all []*found
	hosts := make(map[string]bool)
	for i, c := range root.children {
		if c.name != "cpu" {
			h.note("<%.40s> in <system> (line %d) is not read", c.name, c.line)
			continue
		}
		if hosts[c.text("host_hash")] = true; len(hosts) > 1 {
			return c.errorf("host_hash is that of a second host: want the topology of one")
		}
		if err := h.walk(c, found{cpu: i}, &all); err != nil {
			return err
		}
	}
	if err := h.order(all); err != nil {
		return err
	}
	for _, f := range all {
		if err := h.links(f, all); err != nil {
			return err
		}
	}
	for _, f := range all {
		h.machine.GPUs = append(h.machine.GPUs, f.gpu)
	}
	h.levels(func(a, b int) gpu.Level { return all[a].level(all[b]) })
	h.noteOneWay()
	return nil
}

// unknown notes the attributes of an element that are not known.
func (h *host) unknown(e *element) {
	names := known[e.name]
	for _, a := range e.attrs {
		if names != nil && !slices.Contains(names, a.Name.Local) {
			h.note("attribute %.40s of <%s> (line %d) is not read", a.Name.Local, e.name, e.line)
		}
	}
}

// walk visits the elements below e, which f leads to, and appends the GPUs.
func (h *host) walk(e *element, f found, all *[]*found) error {
	h.unknown(e)
	f.above = slices.Clip(f.above)
	for _, c := range e.children {
		var err error
		switch c.name {
		case "pci":
			below := f
			below.above = append(f.above, gpu.NormalPCI(c.text("busid")))
			if err = h.device(c, e, &below); err == nil {
				err = h.walk(c, below, all)
			}
		case "gpu":
			if e.name != "pci" {
				return c.errorf("want it in <pci>, not in <%s>", e.name)
			}
			err = h.addGPU(c, f, all)
		case "nic":
		default:
			h.note("<%.40s> in <%s> (line %d) is not read", c.name, e.name, c.line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// device reads a PCI device, and puts its slot, and the uplink of the one above it, into f.
func (h *host) device(e, above *element, f *found) error {
	if e.text("busid") == "" {
		return e.errorf("busid is missing")
	}
	class := strings.ToLower(e.text("class"))
	if class != "" && !slices.ContainsFunc(pciClasses, func(c string) bool { return strings.HasPrefix(class, c) }) {
		h.note("class %.20q of PCI device %.40s (line %d) is not known", class, e.text("busid"), e.line)
	}
	f.gpu.Uplink = 0
	if above.name == "pci" && f.gpu.PCIeGeneration > 0 && f.gpu.PCIeWidth > 0 {
		f.gpu.Uplink = gpu.PCIeRate(f.gpu.PCIeGeneration, f.gpu.PCIeWidth)
	}
	f.gpu.PCI = gpu.NormalPCI(e.text("busid"))
	speed, _, _ := strings.Cut(e.text("link_speed"), " ")
	transfers, err := strconv.ParseFloat(speed, 64)
	f.gpu.PCIeGeneration = gpu.PCIeGeneration(transfers)
	if speed != "" && !strings.EqualFold(speed, "unknown") && (err != nil || f.gpu.PCIeGeneration == 0) {
		return e.errorf("link_speed is %.40q, want a speed as \"16.0 GT/s PCIe\": 2.5, 5, 8, 16, 32 or 64",
			e.text("link_speed"))
	}
	f.gpu.PCIeWidth, _, err = e.number("link_width", 32)
	return err
}

// addGPU reads a <gpu>, in the PCI device that f is at.
func (h *host) addGPU(e *element, f found, all *[]*found) error {
	h.unknown(e)
	f.at, f.rank = e, -1
	var hasDev, hasRank bool
	var err error
	if f.dev, hasDev, err = e.number("dev", 1<<16); err != nil {
		return err
	}
	rank, hasRank, err := e.number("rank", 1<<24)
	if err != nil {
		return err
	}
	if hasRank {
		f.rank = rank
	}
	if f.sm, _, err = e.number("sm", 1000); err != nil {
		return err
	}
	switch {
	case !hasDev && !hasRank:
		return e.errorf("dev and rank are missing: one of them gives the number of the GPU")
	case len(*all) == gpu.MaxGPUs:
		return e.errorf("more than %d GPUs", gpu.MaxGPUs)
	case h.model != nil && f.sm != 0 && f.sm != h.model.SM:
		return e.errorf("sm is %d, and --gpu-model %s has %d: is it another kind?", f.sm, h.model.Name, h.model.SM)
	}
	g := &f.gpu
	g.UUID, g.Index, g.NUMA, g.Name = g.PCI, f.dev, f.cpu, "GPU"
	f.above = f.above[:len(f.above)-1] // its own
	if h.model != nil {
		f.sm = h.model.SM
		g.PCIeGeneration, g.PCIeWidth = cmp.Or(g.PCIeGeneration, h.model.Generation), cmp.Or(g.PCIeWidth, 16)
	}
	if g.PCIeGeneration == 0 || g.PCIeWidth == 0 {
		h.note("link_speed or link_width of GPU %s (line %d) is not known: PCIe 3.0 x16 counts, as for NCCL; --gpu-model "+
			"sets another", g.PCI, e.line)
		g.PCIeGeneration, g.PCIeWidth = cmp.Or(g.PCIeGeneration, 3), cmp.Or(g.PCIeWidth, 16)
	}
	*all = append(*all, &f)
	return nil
}

// order sorts the GPUs by rank, or by number where not all have one, and numbers them.
func (h *host) order(all []*found) error {
	if len(all) == 0 {
		return fmt.Errorf("no <gpu> in the file")
	}
	ranked := !slices.ContainsFunc(all, func(f *found) bool { return f.rank < 0 })
	place := func(f *found) int {
		if ranked {
			return f.rank
		}
		return f.dev
	}
	slices.SortFunc(all, func(a, b *found) int { return place(a) - place(b) })
	for i, f := range all {
		if i > 0 && place(f) == place(all[i-1]) {
			return f.at.errorf("it has number %d, as another", place(f))
		}
		if place(f) != i {
			h.note("GPU %s (line %d) has number %d in the file, and is rank %d", f.gpu.PCI, f.at.line, place(f), i)
		}
		f.gpu.Index = i
	}
	return nil
}

// links reads the NVLinks of a GPU.
func (h *host) links(f *found, all []*found) error {
	for _, c := range f.at.children {
		switch c.name {
		case "nvlink", "c2c":
			h.unknown(c)
		case "xgmi":
			return c.errorf("the rates of links of AMD's GPUs are not known; the machines mi250 and mi300x have such")
		default:
			h.note("<%.40s> in <gpu> (line %d) is not read", c.name, c.line)
		}
		if c.name != "nvlink" {
			continue
		}
		count, there, err := c.number("count", maxLinks)
		if err != nil {
			return err
		}
		if !there || len(f.gpu.NVLinks)+count > maxLinks {
			return c.errorf("want a count, and at most %d NVLinks of a GPU", maxLinks)
		}
		link, err := h.link(f, c, all)
		if err != nil {
			return err
		}
		if link.Switch || link.Remote != "" {
			f.gpu.NVLinks = append(f.gpu.NVLinks, slices.Repeat([]gpu.NVLink{link}, count)...)
		}
	}
	return nil
}

// link returns the NVLink of f that c describes. One without an end does not count.
func (h *host) link(f *found, c *element, all []*found) (gpu.NVLink, error) {
	target, class := gpu.NormalPCI(c.text("target")), strings.ToLower(c.text("tclass"))
	toGPU := slices.ContainsFunc(all, func(o *found) bool { return o != f && o.gpu.PCI == target })
	switch {
	case toGPU || class == classSwitch:
	case class == classCPU:
		h.note("NVLinks of GPU %s to a CPU (line %d) do not count", f.gpu.PCI, c.line)
		return gpu.NVLink{}, nil
	case strings.HasPrefix(class, classGPU):
		h.note("NVLinks of GPU %s to %.40s (line %d), which is not in the file, do not count", f.gpu.PCI, target, c.line)
		return gpu.NVLink{}, nil
	default:
		return gpu.NVLink{}, c.errorf("the other end %.40q has class %.40q, which is not known: want a GPU of the file, or "+
			"class %s of an NVSwitch", target, class, classSwitch)
	}
	link, known := gpu.LinkOf(f.sm)
	switch {
	case f.sm == 0:
		return link, f.at.errorf("sm, the kind of the GPU, is missing, and with it the rate of its NVLinks: set --gpu-model")
	case !known:
		return link, f.at.errorf("sm is %d, for which no rate of NVLinks is known", f.sm)
	}
	link.Remote, link.Switch = target, !toGPU
	return link, nil
}

// noteOneWay notes pairs with different numbers of NVLinks there and back: the smaller counts.
func (h *host) noteOneWay() {
	count := func(a, b int) (n int) {
		for _, l := range h.machine.GPUs[a].NVLinks {
			if !l.Switch && l.Remote == h.machine.GPUs[b].PCI {
				n++
			}
		}
		return n
	}
	for a := range h.machine.GPUs {
		for b := range a {
			if there, back := count(b, a), count(a, b); there != back {
				h.note("GPU %s has %d NVLinks to GPU %s, which has %d back: the smaller number counts",
					h.machine.GPUs[b].PCI, there, h.machine.GPUs[a].PCI, back)
			}
		}
	}
}

// level returns the distance of two GPUs on PCIe.
func (f *found) level(o *found) gpu.Level {
	if f.cpu != o.cpu {
		return gpu.LevelSystem
	}
	same := 0
	for same < min(len(f.above), len(o.above)) && f.above[same] == o.above[same] {
		same++
	}
	switch {
	case same == 0:
		return gpu.LevelRoot
	case same == len(f.above) && same == len(o.above):
		return gpu.LevelSwitch
	}
	return gpu.LevelSwitches
}
