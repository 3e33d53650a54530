package foreign

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if !Is(data) {
		t.Fatalf("%s is not recognized", name)
	}
	return data
}

// TestMachines: both kinds of files give the links and the rates of machines that treerun has from data sheets.
func TestMachines(t *testing.T) {
	for _, c := range []struct{ file, model, machine string }{
		{"cube.xml", "", "dgx1v"}, {"cube.xml", "V100", "dgx1v"}, {"cube.txt", "v100", "dgx1v"},
		{"switched.xml", "", "dgxh100"}, {"switched.txt", "h100", "dgxh100"},
	} {
		g, notes, err := Parse(read(t, c.file), gpu.FindModel(c.model))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		if len(notes) > 0 {
			t.Errorf("%s: notes %q", c.file, notes)
		}
		want, _ := topo.Machine(c.machine)
		if !slices.EqualFunc(g.Links, want.Links, func(a, b topo.Link) bool {
			return a.A == b.A && a.B == b.B && a.GBytesPerSecond == b.GBytesPerSecond && a.Kind == b.Kind
		}) {
			t.Errorf("%s: the links are %v, want those of %s", c.file, g.Links, c.machine)
		}
		if !slices.EqualFunc(g.Ports, want.Ports, func(a, b topo.Port) bool {
			return slices.Equal(a.Ranks, b.Ranks) && a.GBytesPerSecond == b.GBytesPerSecond && a.Kind == b.Kind
		}) {
			t.Errorf("%s: the ports are %v, want those of %s", c.file, g.Ports, c.machine)
		}
	}
}

// TestPCIe: without NVLinks the slots, switches and sockets count; a narrow uplink of a switch is its port.
func TestPCIe(t *testing.T) {
	slot := gpu.PCIeRate(4, 16)
	for file, uplink := range map[string]float64{"pcie.xml": slot / 2, "pcie.txt": slot} {
		g, notes, err := Parse(read(t, file), gpu.FindModel("a10"))
		if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "no rate between sockets is in the file") {
			t.Fatalf("%v, notes %q", err, notes)
		}
		index := g.LinkIndex()
		for pair, want := range map[[2]int32]float64{{0, 1}: slot, {0, 2}: slot, {0, 7}: 12} {
			if l := g.Links[index[pair]]; l.GBytesPerSecond != want || l.Kind != gpu.KindPCIe {
				t.Errorf("%s: %+v, want %v GB/s", file, l, want)
			}
		}
		port := func(ranks ...int) float64 {
			i := slices.IndexFunc(g.Ports, func(p topo.Port) bool { return slices.Equal(p.Ranks, ranks) })
			if i < 0 {
				t.Fatalf("%s: no port of %v", file, ranks)
			}
			return g.Ports[i].GBytesPerSecond
		}
		if port(0, 1) != slot || port(2, 3) != uplink || port(0, 1, 2, 3) != 12 {
			t.Errorf("%s: ports %+v", file, g.Ports)
		}
	}
}

// changed returns a file with a text in place of another.
func changed(t *testing.T, file, old, with string) []byte {
	t.Helper()
	data := string(read(t, file))
	if !strings.Contains(data, old) {
		t.Fatalf("%s has no %q", file, old)
	}
	return []byte(strings.Replace(data, old, with, 1))
}

// TestFaults: what a rate depends on, and is not known, is an error that names the element and the reason.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ file, old, with, model, want string }{
		{"cube.txt", "NV1", "NV1", "", "has no rates: name the kind of its GPUs with --gpu-model, one of p100, v100"},
		{"cube.txt", "NV1", "NV9", "v100", `GPU0 to GPU1 is "NV9", and the way back "NV1"`},
		{"cube.txt", "GPU0", "GPU0", "a10", "GPU0 and GPU1 have 1 NVLinks, and --gpu-model a10 has 0 at most"},
		{"cube.txt", "GPU0", "GPU0", "p100", "GPU0 has 6 NVLinks in all, and --gpu-model p100 has 4"},
		{"pcie.txt", "PIX", "XGMI", "a10", `GPU0 to GPU1 is "XGMI"`},
		{"pcie.txt", " X ", "PIX", "a10", `GPU0 to GPU0 is "PIX": want X`},
		{"pcie.txt", "GPU7\tSYS", "GPU8\tSYS", "a10", "the rows of GPUs are"},
		{"pcie.txt", "\tGPU7", "\tGPU7" + strings.Repeat("\tGPU8", 5), "a10",
			"the row of GPU0 has 11 cells for 13 columns"},
		{"switched.txt", "GPU7\tNV18", "GPU7\tNV18", "a100", "have 18 NVLinks, and --gpu-model a100 has 12"},
		{"cube.xml", `tclass="0x030200"`, `tclass="0x070000"`, "", ""}, // its target is a GPU of the file
		{"switched.xml", `tclass="0x068000"`, `tclass="0x070000"`, "", `line 6: <nvlink>: the other end "0000:05:00.0" has ` +
			`class "0x070000", which is not known`},
		{"switched.xml", `sm="90"`, `sm="91"`, "", "line 5: <gpu>: sm is 91, for which no rate of NVLinks is known"},
		{"switched.xml", `sm="90"`, ``, "", "sm, the kind of the GPU, is missing"},
		{"switched.xml", `sm="90"`, `sm="-1"`, "", `sm is "-1", want a whole number`},
		{"switched.xml", `sm="90"`, `sm="90"`, "a100", "line 5: <gpu>: sm is 90, and --gpu-model a100 has 80"},
		{"switched.xml", `count="4"`, `count="65"`, "", "want a whole number from 0 to 64"},
		{"switched.xml", `count="5"`, `count="64"`, "", "at most 64 NVLinks"},
		{"switched.xml", `count="4"`, ``, "", "want a count"},
		{"switched.xml", `32.0 GT/s`, `33 GT/s`, "", `line 3: <pci>: link_speed is "33 GT/s PCIe", want`},
		{"switched.xml", `numaid="1"`, `numaid="1" numaid="1"`, "", "numaid is given twice"},
		{"switched.xml", `<cpu host_hash="0x11"`, `<cpu host_hash="0x12"`, "", "a second host"},
		{"switched.xml", `dev="1" sm="90" rank="1"`, `dev="1" sm="90" rank="0"`, "", "it has number 0, as another"},
		{"switched.xml", `dev="1" sm="90" rank="1"`, ``, "", "dev and rank are missing"},
		{"switched.xml", `busid="0000:23:00.0"`, ``, "", "busid is missing"},
		{"switched.xml", `busid="0000:23:00.0"`, `busid="0000:13:00.0"`, "", "every GPU needs one of its own"},
		{"switched.xml", `<system version="2">`, `<!DOCTYPE s [<!ENTITY a "b">]><system>`, "", "is not allowed"},
		{"switched.xml", `</system>`, ``, "", "XML: XML syntax error"},
		{"switched.xml", `</system>`, `&a;</system>`, "", "invalid character entity &a;"},
		{"switched.xml", `</system>`, `</system><system/>`, "", "a second element"},
		{"switched.xml", `</system>`, `word</system>`, "", `text "word" between elements`},
		{"switched.xml", `<nvlink`, `<xgmi target="1"/><nvlink`, "", "<xgmi>: the rates of links of AMD's GPUs are not known"},
	} {
		g, _, err := Parse(changed(t, c.file, c.old, c.with), gpu.FindModel(c.model))
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s with %q: %v", c.file, c.with, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s with %q: %v, %v, want %q", c.file, c.with, g, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"<a/>":             "line 1: <a>: want <system>",
		"<system/>":        "no <gpu> in the file",
		"<!-- nothing -->": "no element",
		"<system><cpu>" + strings.Repeat("<pci busid='1'>", 100): "or 64 within each other",
		"<system><cpu><gpu dev='0'/></cpu></system>":             "want it in <pci>",
	} {
		if g, _, err := Parse([]byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: %v, %v, want %q", text, g, err, want)
		}
	}
}

// TestNotes: what is not known and no rate depends on is named, and so is a usual value.
func TestNotes(t *testing.T) {
	for _, c := range []struct{ file, old, with, want string }{
		{"switched.xml", `<system version="2">`, `<system version="3">`, `version "3" of the file is not known`},
		{"switched.xml", `numaid="1"`, `numaid="1" color="red"`, "attribute color of <cpu> (line 44) is not read"},
		{"switched.xml", `</system>`, `<fan/></system>`, "<fan> in <system> (line 86) is not read"},
		{"switched.xml", `<nvlink`, `<fan/><nvlink`, "<fan> in <gpu> (line 6) is not read"},
		{"switched.xml", `class="0x030200"`, `class="0x090000"`,
			`class "0x090000" of PCI device 0000:13:00.0 (line 4) is not known`},
		{"switched.xml", `dev="7" sm="90" rank="7"`, `dev="7" sm="90" rank="9"`, "has number 9 in the file, and is rank 7"},
		{"switched.xml", `tclass="0x068000"`, `tclass="0x068001"`, "NVLinks of GPU 0000:13:00.0 to a CPU (line 6) do not"},
		{"pcie.xml", "\"16.0 GT/s PCIe\" link_width=\"16\">\n        <gpu", "\"Unknown\" link_width=\"16\">\n        <gpu",
			"link_speed or link_width of GPU 0000:05:00.0 (line 5) is not known: PCIe 3.0 x16 counts"},
		{"cube.xml", `target="0000:07:00.0"`, `target="0000:77:00.0"`,
			"NVLinks of GPU 0000:06:00.0 to 0000:77:00.0 (line 8), which is not in the file, do not count"},
		{"cube.xml", `target="0000:07:00.0" count="1"`, `target="0000:07:00.0" count="2"`,
			"GPU 0000:06:00.0 has 2 NVLinks to GPU 0000:07:00.0, which has 1 back: the smaller number counts"},
	} {
		_, notes, err := Parse(changed(t, c.file, c.old, c.with), nil)
		if err != nil || !strings.Contains(strings.Join(notes, "\n"), c.want) {
			t.Errorf("%s with %q: %v, notes %q, want %q", c.file, c.with, err, notes, c.want)
		}
	}
	many := strings.Builder{}
	for i := range 30 {
		many.WriteString("<a" + strings.Repeat("b", i) + "/>")
	}
	_, notes, err := Parse(changed(t, "pcie.xml", "</system>", many.String()+"</system>"), nil)
	if err != nil || len(notes) != maxNotes+1 || !strings.HasSuffix(notes[maxNotes], " more notes of this kind") {
		t.Errorf("%v, %q", err, notes)
	}
}

// FuzzParse: what is read is a valid graph, or an error, whatever the bytes.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"cube.xml", "switched.xml", "pcie.xml", "cube.txt", "switched.txt", "pcie.txt"} {
		f.Add(read(f, name), "v100")
		f.Add(read(f, name), "h100")
	}
	f.Fuzz(func(t *testing.T, data []byte, model string) {
		g, _, err := Parse(data, gpu.FindModel(model))
		if err != nil {
			return
		}
		if err := g.Validate(); err != nil {
			t.Fatal(err)
		}
	})
}
