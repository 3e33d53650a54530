package main

import (
	"fmt"
	"slices"
	"strings"
)

// testCase is one job of one benchmark.
type testCase struct {
	name    string
	hosts   int // 1: this one, unshaped
	perHost int
	bytes   int64
	who     string // treerun, or a peer
	form    string // of a sparse AllReduce: "price" by price; "plain" is collective.AllReduce; or a carrier
	what    string // which part of a form's densities and overlaps, "" for all
	overlap string // list; the rows are of CASE-OVERLAP
	density string // list
	inPlace string // as the flag of treerun bench
}

// paperBytes is the message of the paper: 26,214,400 floats.
const paperBytes = 104857600

const (
	sweep = "1,.8,.4,.2,.1,.08,.04,.02,.01"
	few   = "1,.1,.01"
	rare  = ".1,.01" // dense input runs as the dense plan
)

// forms are those that ranks on so many hosts can choose between, beside the dense plan.
func forms(hosts int) []string {
	if hosts == 1 {
		return []string{"trees", "aggregators", "shared"}
	}
	return []string{"trees", "aggregators"}
}

// carriers are the other ways in which the form with aggregators runs, by the name of
// their cases: what they add to its arguments.
var carriers = map[string][]string{
	"own": {"--aggregators", "4"},
}

// carried are the cases of carriers in the order of the page, behind aggregators on
// the ranks over links.
var carried = []string{"aggregators", "own"}

// cases returns all, in the order in which they are measured.
func cases() []testCase {
	var all []testCase
	add := func(c testCase) {
		c.name = strings.Join(slices.DeleteFunc([]string{fmt.Sprintf("%dx%d", c.hosts, c.perHost), c.who, c.form, c.what}, func(s string) bool { return s == "" || s == "treerun" }), "-")
		all = append(all, c)
	}
	sparse := func(c testCase, form, what, overlap, density string) {
		c.form, c.what, c.overlap, c.density = form, what, overlap, density
		add(c)
	}
	for _, perHost := range []int{2, 1} {
		c := testCase{hosts: 4, perHost: perHost, bytes: paperBytes, who: "treerun", form: "plain", inPlace: "yes"}
		add(c)
		first, others := sweep, "full,none"
		if perHost == 1 {
			first, others = few, "full"
		}
		sparse(c, "price", "random", "random", first)
		sparse(c, "price", "others", others, rare)
		for _, form := range forms(4) {
			sparse(c, form, "", "random,"+others, rare)
		}
	}
	for _, form := range carried[1:] {
		sparse(testCase{hosts: 4, perHost: 2, bytes: paperBytes, who: "treerun", inPlace: "yes"}, form, "", "random", ".01")
		sparse(testCase{hosts: 1, perHost: 4, bytes: 64 << 20, who: "treerun", inPlace: "yes"}, form, "", "random", rare)
	}
	for _, who := range []string{"openmpi", "openmpi:ring", "mpich"} {
		add(testCase{hosts: 4, perHost: 2, bytes: paperBytes, who: who, inPlace: "yes"})
	}
	for _, np := range []int{2, 4, 8} {
		c := testCase{hosts: 1, perHost: np, bytes: 64 << 20, who: "treerun", form: "plain", inPlace: "both"}
		add(c)
		sparse(c, "price", "", "random,full", few)
		for _, form := range forms(1) {
			sparse(c, form, "", "random,full", rare)
		}
	}
	return all
}

// row returns the name of the rows of c with an overlap, "" where there is none.
func (c *testCase) row(overlap string) string {
	name := strings.TrimSuffix(c.name, "-"+c.what)
	if c.what == "" {
		name = c.name
	}
	if overlap != "" {
		name += "-" + overlap
	}
	return name
}

func names(list []testCase) []string {
	var all []string
	for _, c := range list {
		all = append(all, c.name)
	}
	return all
}

// chosen returns the cases with these names; one that ends in * stands for all that
// begin so.
func chosen(list []testCase, names []string) ([]testCase, error) {
	var out []testCase
	for _, name := range names {
		before := len(out)
		for _, c := range list {
			begin, open := strings.CutSuffix(name, "*")
			if c.name == name || open && strings.HasPrefix(c.name, begin) {
				out = append(out, c)
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("no case %q", name)
		}
	}
	return out, nil
}

// np is the number of ranks.
func (c *testCase) np() int { return c.hosts * c.perHost }

// bench are the arguments of treerun bench but for hosts. With check it compares
// every element of one more call.
func (c *testCase) bench(iterations int, check bool) []string {
	args := []string{"-b", fmt.Sprint(c.bytes), "-e", fmt.Sprint(c.bytes), "-w", "1", "--json", "-", "--in-place=" + c.inPlace}
	switch {
	case c.hosts == 1:
		args = append(args, "-n", "9", "-w", "2")
	default:
		args = append(args, "-n", fmt.Sprint(iterations), "--max-seconds", "0")
	}
	if !check {
		args = append(args, "-c", "0")
	}
	if c.form == "plain" {
		return append(args, "--collective", "allreduce")
	}
	args = append(args, "--collective", "sparse-allreduce", "--density", c.density, "--overlap", c.overlap)
	if more, is := carriers[c.form]; is {
		return append(append(args, "--form", "aggregators"), more...)
	}
	if c.form != "price" {
		args = append(args, "--form", c.form)
	}
	return args
}
