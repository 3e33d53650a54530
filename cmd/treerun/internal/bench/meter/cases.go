package meter

// Case is one measurement: a row.
type Case struct {
	*Collective
	Type    Type
	Op      string // "none" where the collective takes none
	Root    int    // -1 where it takes none
	Bytes   int64  // of the message, as nccl-tests defines it: see Collective.Parts
	Count   int    // elements; of a block where the collective has blocks
	InPlace bool
	Calls   int // that are in flight together; the size is that of one

	Density float64 // of a sparse collective, else 0
	Overlap string  // of a sparse collective, else ""
}

// Cases lists what is measured on np ranks, in this order: by collective, calls
// in flight, type, operation and size, out of place and then in place.
func (o *Options) Cases(np int) []Case {
	var list []Case
	for _, name := range o.Collectives {
		c := Find(name)
		types, ops, root := o.Types, o.Ops, -1
		if c.Empty {
			types = []Type{NoType}
		}
		if !c.Reduces {
			ops = []string{"none"}
		}
		if c.Rooted {
			root = o.Root
		}
		for _, calls := range o.inFlightOf(c) {
			for _, typ := range types {
				for _, op := range ops {
					if c.takes(typ, op) {
						list = append(list, o.section(Case{Collective: c, Type: typ, Op: op, Root: root, Calls: calls}, np)...)
					}
				}
			}
		}
	}
	return list
}

// section lists the sizes and passes of one collective, type and operation.
func (o *Options) section(c Case, np int) []Case {
	var list []Case
	for _, bytes := range o.Sizes() {
		c.resize(bytes, np)
		if len(list) > 0 && list[len(list)-1].Bytes == c.Bytes {
			continue // two small sizes have become one
		}
		for _, k := range o.spread(c) {
			for _, inPlace := range o.passesOf(c.Collective) {
				k.InPlace = inPlace
				list = append(list, k)
			}
		}
		if c.Empty {
			break
		}
	}
	return list
}

// resize sets the count that comes closest to so many bytes from below, at
// least 1, and the bytes that it has.
func (c *Case) resize(bytes int64, np int) {
	blocks := int64(1)
	if c.Parts {
		blocks = int64(np)
	}
	count := max(bytes/(blocks*int64(c.Type.Size)), 1)
	if c.Empty {
		count = 0
	}
	c.Count, c.Bytes = int(count), count*blocks*int64(c.Type.Size)
}

// inFlightOf returns the numbers of calls in flight of a collective: one that
// has no form for that is measured call by call whatever is asked for.
func (o *Options) inFlightOf(c *Collective) []int {
	if c.OneByOne {
		return []int{1}
	}
	return o.InFlight
}

// passesOf returns the passes of a collective: one that cannot be called in
// place is measured out of place whatever is asked for, and so is a sparse one back to
// back: in place, the result of a call is not the input of the next.
func (o *Options) passesOf(c *Collective) []bool {
	if !c.HasInPlace || c.Sparse && o.Stream {
		return []bool{false}
	}
	return o.Passes
}

// Stride returns the elements from the buffers of one call in flight to those
// of the next, which do not share a cache line.
func (c *Case) Stride(np int) int {
	n, line := max(c.Send.Of(c.Count, np), c.Recv.Of(c.Count, np)), cacheLine/c.Type.Size
	return (n + line - 1) / line * line
}

const cacheLine = 64

// Elements returns the elements that each of the two buffers of a rank needs
// for all cases of a type.
func Elements(cases []Case, typ Type, np int) int {
	most := 0
	for _, c := range cases {
		if c.Type == typ {
			most = max(most, c.Calls*c.Stride(np))
		}
	}
	return most
}

// Memory returns the bytes of the buffers of all np ranks together.
func Memory(cases []Case, np int) int64 {
	var most int64
	for _, typ := range Types {
		most = max(most, 2*int64(np)*int64(Elements(cases, typ, np))*int64(typ.Size))
	}
	return most
}

// Type is an element type.
type Type struct {
	Name string
	Size int // bytes
}

// NoType is the type of a collective that carries no data.
var NoType = Type{"none", 1}

// Types are the element types, in the order of "all".
var Types = []Type{
	{"int8", 1}, {"uint8", 1}, {"int16", 2}, {"uint16", 2}, {"int32", 4}, {"uint32", 4}, {"int64", 8}, {"uint64", 8},
	{"float16", 2}, {"float32", 4}, {"float64", 8}, {"bfloat16", 2},
}

// other are names that nccl-tests and C have for the types.
var other = map[string]string{"half": "float16", "float": "float32", "double": "float64"}

// Ops are the reduction operations, in the order of "all".
var Ops = []string{"sum", "prod", "min", "max", "avg"}
