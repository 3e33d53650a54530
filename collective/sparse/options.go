package sparse

import (
	"fmt"
	"math"
	"reflect"

	"github.com/treerun/treerun/collective"
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

// The forms; the comment of the package says what they are. ByPrice takes the one
// that is predicted to be the quickest.
const (
	ByPrice Form = iota
	Trees
	Aggregators
	Dense
	Lists  // of AllReducePairs alone
	Shared // of ranks on one host alone
	formEnd
)

var forms = [formEnd]string{"by price", "trees", "aggregators", "dense", "lists", "shared"}

// String returns the name of the form: "trees".
func (f Form) String() string {
	if f < formEnd {
		return forms[f]
	}
	return fmt.Sprintf("Form(%d)", uint8(f))
}

// ParseForm returns the form with a name, "" being ByPrice.
func ParseForm(name string) (Form, error) {
	for f, s := range forms {
		if s == name || f == 0 && name == "" {
			return Form(f), nil
		}
	}
	return 0, fmt.Errorf("sparse: no form %q: want one of %q", name, forms[1:])
}

// Option changes a call. All ranks must give the same ones; nil changes nothing.
type Option func(*config)

type config struct {
	block     int
	form      Form
	threshold float64
}

const (
	defaultBlock  = 256 // elements, as published
	maxBlockBytes = 1 << 20
)

// BlockSize sets the elements of a block, 256 without it. Smaller blocks leave out
// more, larger ones cost less to handle.
func BlockSize(elements int) Option { return func(c *config) { c.block = elements } }

// Use sets the form in which the call runs.
func Use(f Form) Option { return func(c *config) { c.form = f } }

// Threshold leaves out blocks of which no element is further from zero than t: they
// count as zero, in the Dense form, too. The elements of other blocks travel as they
// are, small or not; a block with a NaN travels. Without it, or with 0, nothing but
// zeros is left out.
func Threshold(t float64) Option { return func(c *config) { c.threshold = t } }

func newConfig(opts []Option) config {
	c := config{block: defaultBlock}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	return c
}

// checkReduce is check for AllReduce.
func (c *config) checkReduce(dt kernel.DType, op collective.Op) string {
	if c.form == Lists {
		return "the form Lists is for AllReducePairs"
	}
	return c.check(dt, op)
}

// check says what of c cannot be used for elements of a type, "" if all can.
func (c *config) check(dt kernel.DType, op collective.Op) string {
	switch {
	case c.form >= formEnd:
		return fmt.Sprintf("no such form: %v", c.form)
	case op != collective.Sum && op != collective.Min && op != collective.Max:
		return fmt.Sprintf("operation %v; want sum, min or max", op)
	case c.block < 1 || c.block > maxBlockBytes/dt.Size():
		return fmt.Sprintf("blocks of %d elements; want 1 to %d of %v", c.block, maxBlockBytes/dt.Size(), dt)
	case !(c.threshold >= 0) || math.IsInf(c.threshold, 0):
		return fmt.Sprintf("a threshold of %v; want a number from 0 on", c.threshold)
	}
	return ""
}
