package sparse

import (
	"fmt"
	"reflect"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/sparse/internal/block"
	"github.com/treerun/treerun/internal/kernel"
)

// Number is an element type of sparse reductions.
type Number interface {
	~int32 | ~int64 | ~int | ~float32 | ~float64 | collective.Float16 | collective.BFloat16
}

// dtypeOf returns the element type of T.
func dtypeOf[T Number]() kernel.DType {
	var zero T
	switch any(zero).(type) {
	case collective.Float16:
		return kernel.Float16
	case collective.BFloat16:
		return kernel.BFloat16
	}
	return kernel.DTypeOf(reflect.TypeFor[T]().Kind())
}

// Form is how a sparse AllReduce runs.
type Form uint8

// The forms, described in the package comment. ByPrice selects the one that is predicted to be the fastest.
const (
	ByPrice Form = iota
	Trees
	Aggregators
	Dense
	Shared  // only for ranks on one host
	Compact // only for AllReduceDevice
	formEnd
)

var forms = [formEnd]string{"by price", "trees", "aggregators", "dense", "shared", "compact"}

// String returns the name of the form: "trees".
func (f Form) String() string {
	if f < formEnd {
		return forms[f]
	}
	return fmt.Sprintf("Form(%d)", uint8(f))
}

// ParseForm returns the form with a name; "" means ByPrice.
func ParseForm(name string) (Form, error) {
	for f, s := range forms {
		if s == name || f == 0 && name == "" {
			return Form(f), nil
		}
	}
	return 0, fmt.Errorf("sparse: no form %q: want one of %q", name, forms[1:])
}

// Option changes a call. All ranks must pass the same ones; a nil Option changes nothing.
type Option func(*call)

const (
	defaultBlock  = 256 // elements, as published
	maxBlockBytes = 1 << 20
)

// BlockSize sets the number of elements of a block, 256 by default. With smaller blocks more elements are left out,
// larger ones cost less to handle.
func BlockSize(elements int) Option { return func(c *call) { c.Block = int64(elements) } }

// Use sets the form in which the call runs.
func Use(f Form) Option { return func(c *call) { c.Form = f } }

// newCall returns a call with these options.
func newCall(what kind, dt kernel.DType, op collective.Op, count int, opts []Option) call {
	c := call{What: what, DType: dt, Op: kernel.Op(op), Block: defaultBlock, Count: int64(count)}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// grid returns the grid of the call's tensor.
func (c *call) grid() block.Grid {
	return block.Grid{Elements: int(c.Count), Size: int(c.Block), Width: c.DType.Size()}
}

// check describes the fault of c, and returns "" if there is none.
func (c *call) check() string {
	most := int64(maxBlockBytes / c.DType.Size())
	switch {
	case c.Form >= formEnd:
		return fmt.Sprintf("no such form: %v", c.Form)
	case c.Form == Compact && c.What != allReduceDevice:
		return fmt.Sprintf("the form %v; it is for the memory of devices (AllReduceDevice)", c.Form)
	case c.Op != kernel.Sum && c.Op != kernel.Min && c.Op != kernel.Max:
		return fmt.Sprintf("operation %v; want sum, min or max", c.Op)
	case (c.Block < 1 || c.Block > most) && c.What == allReducePairs:
		return fmt.Sprintf("rows of %d elements; want 1 to %d of %v", c.Block, most, c.DType)
	case c.Block < 1 || c.Block > most:
		return fmt.Sprintf("blocks of %d elements; want 1 to %d of %v", c.Block, most, c.DType)
	}
	if err := c.grid().Validate(); err != nil {
		return err.Error()
	}
	return ""
}
