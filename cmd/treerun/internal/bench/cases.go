//go:build linux

package bench

import (
	"slices"

	"github.com/treerun/treerun/collective"
)

// Case is one measurement: a row.
type Case struct {
	*Collective
	Type    Type
	Op      string // "none" where the collective takes none
	Root    int    // -1 where it takes none
	Bytes   int64  // of the message, as nccl-tests defines it: see Collective.lengths
	Count   int    // elements; of a block where the collective has blocks
	InPlace bool
	Calls   int // in flight together; the size is that of one

	Density float64 // of a sparse collective, else 0
	Overlap string  // of a sparse collective, else ""
}

// cases lists the measurements on np ranks, in this order: by collective, calls in flight, type, operation and size,
// out of place and then in place.
func (o *Options) cases(np int) []Case {
	var list []Case
	for _, name := range o.Collectives {
		c := Case{Collective: find(name), Root: -1}
		types, ops, inFlight := o.Types, o.Ops, o.InFlight
		if c.empty() {
			types = []Type{noType}
		}
		if !c.reduces() {
			ops = []string{"none"}
		}
		if c.Kind.HasRoot() {
			c.Root = o.Root
		}
		if c.OneByOne {
			inFlight = []int{1}
		}
		for _, c.Calls = range inFlight {
			for _, c.Type = range types {
				for _, c.Op = range ops {
					if !c.Sparse || c.Type.sparse() && slices.Contains(sparseOps, c.Op) {
						list = append(list, o.section(c, np)...)
					}
				}
			}
		}
	}
	return list
}

// section lists the sizes, spreads and passes of one collective, type and operation. A collective that cannot be called
// in place is measured out of place with any passes, and so is a sparse one back to back: in place, the result of a
// call is not the input of the next.
func (o *Options) section(c Case, np int) (list []Case) {
	passes, densities, overlaps := o.Passes, []float64{0}, []string{""}
	if c.Kind == 0 || c.empty() || c.Sparse && o.Stream {
		passes = []bool{false}
	}
	if c.Sparse {
		densities, overlaps = o.Densities, o.Overlaps
	}
	for _, bytes := range o.Sizes() {
		c.resize(bytes, np)
		if len(list) > 0 && list[len(list)-1].Bytes == c.Bytes {
			continue // two small sizes have become one
		}
		for _, c.Density = range densities {
			for _, c.Overlap = range overlaps {
				for _, c.InPlace = range passes {
					list = append(list, c)
				}
				if c.Density == 0 || c.Density == 1 {
					break // there is one way to have none, or all
				}
			}
		}
	}
	return list
}

// resize sets the largest count, at least 1, whose size is at most the given number of bytes, and sets the size of that
// count.
func (c *Case) resize(bytes int64, np int) {
	blocks := int64(1)
	if c.Kind.HasParts() {
		blocks = int64(np)
	}
	count := max(bytes/(blocks*int64(c.Type.Size)), 1)
	if c.empty() {
		count = 0
	}
	c.Count, c.Bytes = int(count), count*blocks*int64(c.Type.Size)
}

// stride returns the number of elements from the buffers of one call in flight to those of the next, which do not share
// a cache line.
func (c *Case) stride(np int) int {
	n, line := max(c.lengths(c.Count, np)), cacheLine/c.Type.Size
	return (n + line - 1) / line * line
}

const cacheLine = 64

// elements returns the number of elements that each of the two buffers of a rank needs for all cases of a type.
func elements(cases []Case, typ Type, np int) int {
	n := 0
	for _, c := range cases {
		if c.Type == typ {
			n = max(n, c.Calls*c.stride(np))
		}
	}
	return n
}

// memoryOf returns the size of the buffers of all np ranks together, in bytes.
func memoryOf(cases []Case, np int) int64 {
	var bytes int64
	for _, typ := range allTypes {
		bytes = max(bytes, 2*int64(np)*int64(elements(cases, typ, np))*int64(typ.Size))
	}
	return bytes
}

// Type is an element type.
type Type struct {
	Name string
	Size int // bytes
}

// noType is the type of a collective that carries no data.
var noType = Type{"none", 1}

// allTypes are the element types, in the order of "all".
var allTypes = []Type{
	{"int8", 1}, {"uint8", 1}, {"int16", 2}, {"uint16", 2}, {"int32", 4}, {"uint32", 4}, {"int64", 8}, {"uint64", 8},
	{"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2},
}

// typeAliases maps names of nccl-tests and C to the types.
var typeAliases = map[string]string{"half": "float16", "float": "float32", "double": "float64"}

// allOps are the reduction operations, in the order of "all".
var allOps = []string{"sum", "prod", "min", "max", "avg"}

var ops = map[string]collective.Op{"none": collective.Sum, "sum": collective.Sum, "prod": collective.Prod,
	"min": collective.Min, "max": collective.Max, "avg": collective.Avg}
