package sparse

import (
	"fmt"
	"math"
	"os"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/collective/internal/kernel"
	"github.com/treerun/treerun/collective/sparse/omni"
	"github.com/treerun/treerun/transport/datagram"
)

// Number is an element type of sparse reductions.
type Number interface {
	int32 | int64 | float32 | float64 | collective.Float16 | collective.BFloat16
}

// dtypeOf returns the element type of T.
func dtypeOf[T Number]() kernel.DType {
	var zero T
	switch any(zero).(type) {
	case int32:
		return kernel.Int32
	case int64:
		return kernel.Int64
	case float32:
		return kernel.Float32
	case float64:
		return kernel.Float64
	case collective.Float16:
		return kernel.Float16
	default:
		return kernel.BFloat16
	}
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

// Transport is what carries the packets of the Aggregators form.
type Transport uint8

// The transports: the links that collectives have, shared memory and TCP; or UDP, with
// OmniReduce's Algorithm 2, which finds out itself what was lost.
const (
	Links Transport = iota
	UDP
	transportEnd
)

var transports = [transportEnd]string{"tcp", "udp"}

// String returns the name of the transport: "tcp" for the links, or "udp".
func (t Transport) String() string {
	if t < transportEnd {
		return transports[t]
	}
	return fmt.Sprintf("Transport(%d)", uint8(t))
}

// TransportVariable names the transport of calls that do not say Over and run by
// price or as Aggregators: "udp" or "tcp".
const TransportVariable = "TREERUN_SPARSE_TRANSPORT"

// Option changes a call. All ranks must give the same ones; nil changes nothing.
type Option func(*config)

type config struct {
	block     int
	form      Form
	threshold float64
	streams   int
	columns   int
	over      Transport
	overSaid  bool   // by an option
	wrong     string // with the environment
}

const (
	defaultBlock   = 256 // elements, as published
	defaultStreams = 8   // of an aggregator
	udpStreams     = 16  // the same over UDP, where packets are smaller
	unsaid         = -1
	defaultMessage = 16 << 10
	mostBlockBytes = 1 << 20
	mostStreams    = 64
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

// Streams sets how many blocks, or packets of some, of every aggregator are under
// way at once, 8 without it, 16 over UDP: OmniReduce's slots. It is for Aggregators alone.
func Streams(perAggregator int) Option { return func(c *config) { c.streams = perAggregator } }

// Columns sets how many blocks are at most in one packet of the Aggregators form,
// OmniReduce's block fusion. Without it packets have up to 16 KiB, or a datagram's.
func Columns(blocks int) Option { return func(c *config) { c.columns = blocks } }

// Over sets what carries the packets of the Aggregators form, in which the call runs
// then: the links without it, or what TREERUN_SPARSE_TRANSPORT says. Over UDP every
// datagram is encrypted and proves that it comes from a rank of the job. A block must
// fit one; parts of larger ones are the call's blocks then, equal ones if possible.
func Over(t Transport) Option { return func(c *config) { c.over, c.overSaid = t, true } }

func newConfig(opts []Option) config {
	c := config{block: defaultBlock, streams: unsaid}
	for _, o := range opts {
		if o != nil {
			o(&c)
		}
	}
	if !c.overSaid && (c.form == ByPrice || c.form == Aggregators) {
		switch name := os.Getenv(TransportVariable); name {
		case "", Links.String():
		case UDP.String():
			c.over = UDP
		default:
			c.wrong = fmt.Sprintf("%s=%s; want udp or tcp", TransportVariable, name)
		}
	}
	if c.form == ByPrice && c.over == UDP {
		c.form = Aggregators
	}
	if c.streams == unsaid {
		c.streams = c.over.streams()
	}
	return c
}

// streams is how many streams an aggregator has where nobody says so.
func (t Transport) streams() int {
	if t == UDP {
		return udpStreams
	}
	return defaultStreams
}

// Of blocks over UDP: the bytes of the largest, with its entry in the table, and the
// elements of the smallest into which one is divided.
const (
	mostDatagramBlock  = datagram.MaxPayload - omni.HeaderBytes - 4
	leastDatagramBlock = 16
	blockCosts         = 36 // bytes: an entry of the table, and work
)

// blockFor returns the elements of the call's blocks, which over UDP are smaller than
// those that were asked for where these do not fit a datagram.
func (c *config) blockFor(dt kernel.DType) int {
	most := mostDatagramBlock / dt.Size()
	if c.over != UDP || c.block <= most || c.block > mostBlockBytes/dt.Size() {
		return c.block
	}
	// What a block of n elements that was asked for needs of blocks of k that do not
	// end where it does are n+k-1 elements on average, and (n-1)/k+1 blocks, so this k
	// costs least where a block costs as much as some bytes.
	odd := int(math.Sqrt(float64(c.block * blockCosts / dt.Size())))
	odd = min(max(odd, leastDatagramBlock), most)
	for parts := (c.block + most - 1) / most; c.block/parts >= max(odd/2, leastDatagramBlock); parts++ {
		if c.block%parts == 0 {
			return c.block / parts
		}
	}
	return odd
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
	case c.wrong != "":
		return c.wrong
	case c.form >= formEnd:
		return fmt.Sprintf("no such form: %v", c.form)
	case c.over >= transportEnd:
		return fmt.Sprintf("no such transport: %v", c.over)
	case c.over == UDP && c.form != Aggregators:
		return fmt.Sprintf("UDP is for the form Aggregators, not for %v", c.form)
	case op != collective.Sum && op != collective.Min && op != collective.Max:
		return fmt.Sprintf("operation %v; want sum, min or max", op)
	case c.block < 1 || c.block > mostBlockBytes/dt.Size():
		return fmt.Sprintf("blocks of %d elements; want 1 to %d of %v", c.block, mostBlockBytes/dt.Size(), dt)
	case !(c.threshold >= 0) || math.IsInf(c.threshold, 0):
		return fmt.Sprintf("a threshold of %v; want a number from 0 on", c.threshold)
	case c.streams < 1 || c.streams > mostStreams:
		return fmt.Sprintf("%d streams of an aggregator; want 1 to %d", c.streams, mostStreams)
	case c.columns < 0 || c.columns > 1024 || c.columns*c.block*dt.Size() > mostBlockBytes:
		return fmt.Sprintf("%d blocks in a packet; want 1 to 1024, and up to %d bytes", c.columns, mostBlockBytes)
	}
	return ""
}
