//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/testutil"
)

var (
	rewrite = flag.Bool("rewrite", false, "write the pages of docs/lab again from their records")
	within  = flag.String("folder", "", "look at the pages in this `folder` alone")
)

const folder = "docs/lab" // in the root of the repository

// pictures holds files by their names: charts, and the page.
type pictures map[string][]byte

// fromRecords holds the pages that are made from a record, with the functions that draw their charts, nil for none.
var fromRecords = map[string]func(view, pictures) error{
	"one-host": oneHostCharts, "several-hosts": severalHostsCharts, "sparse": nil, "slow-card": nil, "push-pulls": nil,
	"plans-hosts": nil, "calls": nil, "recovery": nil,
}

// fromSources holds the other pages, which contain no measurements.
var fromSources = map[string]func(pictures) (any, error){"packing": packedNetworks, "simulated": simulatedPage}

// made returns the files of a page that is made from the record in a folder, by name.
func made(name, folder string) (pictures, error) {
	rec, err := readRecord(filepath.Join(folder, name+".jsonl"))
	if err != nil {
		return nil, err
	}
	return filesOf(name, rec)
}

func filesOf(name string, rec *record) (pictures, error) {
	v, files := view{record: rec}, pictures{}
	if charts := fromRecords[name]; charts != nil {
		if err := charts(v, files); err != nil {
			return nil, err
		}
	}
	return files, written(files, name, v)
}

// Every page in docs/lab equals the one that is made from its record, and its charts exist.
func TestPagesAreCurrent(t *testing.T) {
	t.Chdir("../..")
	folders := []string{folder, filepath.Join(folder, "epyc")}
	if *within != "" {
		folders = []string{*within}
	}
	for _, dir := range folders {
		for name := range fromRecords {
			if _, err := os.Stat(filepath.Join(dir, name+".jsonl")); err == nil || dir == folder {
				t.Run(filepath.Base(dir)+"/"+name, func(t *testing.T) {
					files, err := made(name, dir)
					current(t, dir, files, err)
				})
			}
		}
	}
	for name, page := range fromSources {
		if name == "packing" && !*rewrite && !testutil.Thorough() {
			continue // its packing of all machines takes long
		}
		t.Run("results/"+name, func(t *testing.T) {
			files := pictures{}
			data, err := page(files)
			current(t, folder, files, errors.Join(err, written(files, name, data)))
		})
	}
}

// current compares the files of a page with those in a folder, or writes them there.
func current(t *testing.T, dir string, files pictures, err error) {
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case *rewrite:
			if err := os.WriteFile(filepath.Join(dir, name), want, 0o644); err != nil {
				t.Error(err)
			}
		case err != nil:
			t.Error(err)
		case strings.HasSuffix(name, ".svg"):
			wellFormed(t, name, want)
		case !bytes.Equal(got, want):
			t.Errorf("%s differs: go test ./scripts/report -run TestPagesAreCurrent -rewrite writes it again", name)
		case bytes.Contains(want, []byte("NaN")):
			t.Errorf("%s has figures that are no numbers", name)
		}
	}
}

func wellFormed(t *testing.T, name string, svg []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// recorded returns a record of rows, each given as: part rep np op bytes who value.
func recorded(t *testing.T, lines ...string) *record {
	t.Helper()
	r := &record{}
	for _, l := range lines {
		v := &row{Plan: "direct"}
		if _, err := fmt.Sscan(l, &v.Part, &v.Rep, &v.NP, &v.Op, &v.Bytes, &v.Who, &v.TimeUs); err != nil {
			t.Fatal(l, err)
		}
		r.add(v)
	}
	return r
}

// pageOf returns the page that a report makes from rows, after they were written and read.
func pageOf(t *testing.T, name string, r *record) string {
	t.Helper()
	dir := t.TempDir()
	if err := r.write(filepath.Join(dir, name+".jsonl")); err != nil {
		t.Fatal(err)
	}
	files, err := made(name, dir)
	if err != nil {
		t.Fatal(err)
	}
	return string(files[name+".md"])
}

func has(t *testing.T, text string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}

// The median over repetitions counts, and the ratio is that of the best peer.
func TestOneHost(t *testing.T) {
	r := recorded(t,
		"sweep 1 2 allreduce 8 treerun 1", "sweep 2 2 allreduce 8 treerun 100", "sweep 3 2 allreduce 8 treerun 2",
		"sweep 1 2 allreduce 8 openmpi 9", "sweep 1 2 allreduce 8 mpich 4", "sweep 1 2 allreduce 8 gloo 50",
		"sweep 1 2 allreduce 8 treerun-alloc 1",
		"sweep 1 2 allreduce 2097152 treerun 200", "sweep 1 2 allreduce 2097152 mpich 100", "sweep 1 2 broadcast 8 treerun 1")
	r.fact("machine", "2 cores")
	has(t, pageOf(t, "one-host", r),
		"| 8 B | 2 | direct | 9 | 4 | 50 | 2.00 | 1 | 4.00 |",
		"| 2 MiB | 200 | direct | - | 100 | - | **0.50** | - | - |",
		"Geometric mean of the ratios: 1.00; of Alloc: 4.00; from 1 MiB up: 0.50, least 0.50. Slower than the best peer "+
			"at: 2 MiB.",
		"| machine | 2 cores |",
		"Not measured: `scripts/one-host.sh settings` adds it.")
	// The bar is the best of all settings and all defaults; treerun's time is that of the same minutes.
	has(t, pageOf(t, "one-host", recorded(t,
		"sweep 1 4 allreduce 8 treerun 1", "sweep 1 4 allreduce 8 openmpi 6", "sweep 1 4 allreduce 512 openmpi 6",
		"settings 1 4 allreduce 8 treerun 2", "settings 1 4 allreduce 8 openmpi:ring 4", "settings 1 4 allreduce 8 gloo:hd 5",
		"settings 1 4 allreduce 512 treerun 8", "settings 1 4 allreduce 512 openmpi:ring 7")),
		"| 8 B | 2 | 4 | openmpi:ring | 2.00 |", "| 512 B | 8 | 6 | openmpi | **0.75** |", "Below 0.9 at: 512 B.")
}

func TestSeveralHosts(t *testing.T) {
	lines := []string{
		"even 1 4 allreduce 4194304 treerun 110000", "even 2 4 allreduce 4194304 treerun 900000",
		"even 3 4 allreduce 4194304 treerun 108000",
		"even 1 4 allreduce 4194304 openmpi 160000", "even 1 4 allreduce 4194304 gloo:hd 120000",
		"even 1 4 allreduce 8 treerun 90", "even 1 4 allreduce 8 openmpi 60",
		"start 1 4 start 0 treerun 100", "start 1 4 start 0 openmpi 240", "start 1 4 start 0 mpich 90",
	}
	r := recorded(t, append(lines, "mesh 1 4 broadcast 16777216 treerun 150000")...)
	for _, v := range r.rows.of(filter{key: key{Who: ownChoice, Op: "allreduce"}}) {
		v.FloorUs = 105184 // 319 Mbit/s, which is 500 * 1448/1514 * 4/6
	}
	share := 0.85
	r.rows.of(filter{key: key{Op: "broadcast"}})[0].Share = &share
	has(t, pageOf(t, "several-hosts", r),
		// 4 MiB in 110 ms are 305 Mbit/s.
		"| even | allreduce | 4 MiB | 305 | 319 | 0.96 | 0.95 | 280 Gloo, hd | 1.09 |",
		"| 8 B | 90 | 60 | - | direct | **0.67** | 0.711 |  |  |",
		"| mesh | broadcast | 16 MiB | 895 | 1053 | **0.85** | 0.90 | - | - |",
		"| 4 | 100 | 240 | 90 | 2.40 |")
}

// The measurements are within the limits of the hosts, and several-hosts has a chapter for every network.
func TestSites(t *testing.T) {
	text, err := pages.ReadFile("pages/several-hosts.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		for _, s := range shorten(r.measure(&run{record: &record{}, sets: "1x2 2x2+1"})) {
			found := r.name != "several-hosts" || strings.Contains(string(text), `{{with .In "`+s.part+`"}}`)
			if !found || len(s.groups) == 0 || s.perHost < 1 || s.hosts < 1 {
				t.Errorf("%s: %s: %d groups, chapter %v", r.name, s.part, len(s.groups), found)
			}
			for _, g := range s.groups {
				if g.begin > g.end || g.factor < 2 || len(g.who) == 0 {
					t.Errorf("%s: %s: %+v", r.name, s.part, g)
				}
			}
		}
	}
}

func TestSparse(t *testing.T) {
	r := &record{}
	add := func(set, who, overlap string, d, us float64, v sparse) {
		one := &row{key: key{Part: set, Who: who, Op: "allreduce", NP: 8}, Rep: 1, InPlace: true, TimeUs: us,
			FloorUs: 0.6 * us}
		if overlap != "" {
			v.Overlap, v.Density = overlap, d
			one.Sparse = &v
		}
		r.add(one)
	}
	r.fact("machine", "two cores")
	add("4x2", "plain", "", 0, 2.6e6, sparse{})
	add("4x2", "openmpi", "", 0, 3e6, sparse{})
	add("4x2", "price", "full", .01, 1e5, sparse{Union: .01, Form: "trees", Sent: 2e6})
	add("1x2", "plain", "", 0, 15e3, sparse{})
	add("1x2", "price", "full", .01, 5e3, sparse{Union: .01, Form: "trees", FindUs: 2e3})
	add("4x2", "aggregators", "random", .1, 2e6, sparse{})
	add("4x2", ownAggregators, "random", .1, 3e6, sparse{})
	add("1x8", "plain", "", 0, 9e4, sparse{})
	add("1x8", "price", "full", .1, 5e4, sparse{Form: "trees"})
	add("1x8", "trees", "full", .1, 6e4, sparse{Form: "trees"})
	add("1x8", "shared", "full", .1, 4e4, sparse{Form: "shared"})
	has(t, pageOf(t, "sparse", r), "two cores", "| 26.00 | reached |", "| 30.00 | reached |", "| 3.00 | **missed** |",
		"| 0.01 | 1 % | 100 ms trees |", "Open MPI: 3000 ms", "| 60 ms | 0.60 | 2.0 MB |", "| 3.00 | 2 ms | 0.0 MB |",
		"(less: 1x8 full 0.1 in place) | 0.67 | **missed** |", "| by price | trees | aggregators | shared |",
		"| 0.1 | 0 % | 50 ms trees | 60 ms |  | 40 ms | 1.80 |", "| 4x2 | 0.1 | 2000 ms | 3000 ms |\n")
}

func TestWords(t *testing.T) {
	got := strings.Join([]string{numbers.Bytes(8), numbers.Bytes(1536), numbers.Bytes(2 << 10), numbers.Bytes(256 << 20),
		number(0.1234), number(1234.5),
		number(math.NaN()), below(1, 0.999), below(1, 1), below(1, math.NaN())}, " ")
	if want := "8 B 1536 B 2 KiB 256 MiB 0.123 1234 - **1.00** 1.00 -"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got = fmt.Sprint(digits(0.0123), " ", digits(12.34), " ", digits(12345), " ", grouped(999), " ", grouped(1234567.4),
		" ",
		about(6.234), " ", about(572339), " ", cut(0.9996), " ", cut(1))
	if want := "0.0123 12.3 12,345 999 1,234,567 6.23 572,000 99.9 100"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A median, means and the least of an empty list are unknown, and are formatted as such.
func TestUnknown(t *testing.T) {
	r := recorded(t, "x 1 2 op 8 b 2", "x 1 2 op 8 c 2")
	least := view{record: r}.Least("a", "b", "c")
	nobody := view{record: r}.Least().Who
	got := fmt.Sprintln(median(nil), median([]float64{4, 1, 2}), median([]float64{4, 1}), geometric([]float64{math.NaN()}),
		number(geometric([]float64{2, math.NaN(), 8})), least.Us, least.Who, nobody == "")
	if want := "NaN 2 2.5 NaN 4 2 b true\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestMachine(t *testing.T) {
	w, r := startStopwatch(), &record{}
	r.describe("v1")
	if len(r.Facts) != 4 || !strings.HasPrefix(r.factOf("kernel"), "Linux ") ||
		!strings.HasPrefix(r.factOf("treerun"), "v1, go") {
		t.Errorf("%+v", r.Facts)
	}
	if away := w.otherCores(); !(away >= 0) || w.seconds() <= 0 {
		t.Errorf("others used %v cores", away)
	}
}

// Rows of the kit and of treerun bench are found among their other output.
func TestPrinted(t *testing.T) {
	got, err := parseRows([]byte(`# mpi_perf
{"impl":"x","op":"allreduce","np":4,"bytes":8,"time_us":3.5,"wrong":0}
{"ranks":[{"pid":1}]}
{"collective":"sparse-allreduce","op":"sum","bytes":64,"time_us":7,"wrong":null,"plan":"tree","sparse":{"density":0.01,"find_us":9}}
`))
	if err != nil || len(got) != 2 || got[0].TimeUs != 3.5 || got[0].Op != "allreduce" ||
		got[1].Op != "sparse-allreduce" ||
		got[1].Plan != "tree" || got[1].Sparse.FindUs != 9 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := parseRows([]byte(`{"op":"allreduce","bytes":8,"time_us":3.5,"wrong":2}`)); err == nil ||
		!strings.Contains(err.Error(), "2 wrong elements") {
		t.Errorf("wrong elements: %v", err)
	}
	if _, err := parseRows([]byte("Segmentation fault\n")); err == nil {
		t.Error("rows of nothing")
	}
}

// Errors on the command line, or in a record, are reported.
func TestRefused(t *testing.T) {
	t.Chdir("../..")
	for _, args := range [][]string{nil, {"one-host", "x"}, {"nothing", folder},
		{"slow-card", "-treerun", "x", "-repeat", "0", "y"}, {"packing", "x"}, {"sparse", "x"},
		{"several-hosts", "-treerun", "x", "y"}, {"slow-card"}} {
		if command(context.Background(), args) == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if _, err := made("one-host", t.TempDir()); err == nil {
		t.Error("a page of no record")
	}
	for _, line := range []string{`{"part":"x"}`, `{`,
		`{"part":"x","who":"y","collective":"z","np":0,"rep":1,"time_us":1}`,
		`{"part":"x","who":"y","collective":"z","np":1,"rep":1,"time_us":0}`,
		`{"part":"x","who":"y","collective":"z","np":1,"rep":1,"time_us":1,"figure":1}`,
		`{"part":"x","who":"y","collective":"z","np":1,"rep":1,"bytes":-8,"time_us":1}`} {
		if _, err := parse([]byte(`{"fact":"a","value":"b"}` + "\n" + line + "\n")); err == nil ||
			!strings.Contains(err.Error(), "line 2") {
			t.Errorf("%s: error %v, want one that names line 2", line, err)
		}
	}
}

// FuzzParse: any record is refused or gives a page, for every page that has records.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"fact":"a","value":"b"}` + "\n" +
		`{"part":"even","who":"treerun","collective":"allreduce","np":4,"bytes":8,"rep":1,"time_us":5}`))
	f.Add([]byte(`{"part":"4x2","who":"price","collective":"x","np":1,"rep":1,"time_us":5,` +
		`"sparse":{"density":0.1,"overlap":"full"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parse(text)
		if err != nil || len(r.rows) == 0 || len(r.rows) > 20 {
			return
		}
		for _, v := range r.rows {
			if v.NP < 1 || v.Bytes < 0 || !(v.value() > 0) {
				t.Fatalf("accepted %+v", v)
			}
		}
		for name := range fromRecords {
			_, err := filesOf(name, r)
			empty := slices.ContainsFunc(r.rows, func(v *row) bool { return v.Bytes == 0 })
			if err != nil && !empty { // charts need sizes
				t.Fatal(name, err)
			}
		}
	})
}

// factOf returns a fact, "" if there is none.
func (r *record) factOf(name string) string {
	for _, f := range r.Facts {
		if f.Fact == name {
			return f.Text
		}
	}
	return ""
}
