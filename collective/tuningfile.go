package collective

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/topo"
)

// Tuning says which shape of plan was measured to be the fastest, for each
// collective and size, on one machine with so many ranks and cores. treerun
// bench --tune makes one; New on the same machine goes by it.
type Tuning struct {
	Version     int           `json:"treerun_tuning"` // TuningVersion
	Host        string        `json:"host"`           // where it was measured, for people
	Processor   string        `json:"processor"`      // as Processor names it
	Ranks       int           `json:"ranks"`          // at least 2
	Cores       int           `json:"cores"`          // usable by all ranks together
	Collectives []TunedKind   `json:"collectives"`    // in the order of the kinds, each once
	Measured    []TunedResult `json:"measured"`       // what the choices were made from, for people
}

// TunedKind is what is chosen for one collective.
type TunedKind struct {
	Collective plan.Kind     `json:"collective"`
	Choices    []TunedChoice `json:"choices"` // by rising size; the last has no end
}

// TunedChoice is the shape for messages below a size, in bytes as Choice of Comm
// counts them.
type TunedChoice struct {
	BelowBytes int64  `json:"below_bytes,omitempty"` // 0: however large
	Shape      string `json:"shape"`
}

// TunedResult is what one shape took for one size: the median, in microseconds.
type TunedResult struct {
	Collective plan.Kind `json:"collective"`
	Bytes      int64     `json:"bytes"`
	Shape      string    `json:"shape"`
	Us         float64   `json:"us"`
}

// TuningVersion is the version of the file's form and of the plans behind the
// shapes' names. A file of another version is refused.
const TuningVersion = 1

// MaxTuningBytes bounds the JSON form of a Tuning, in bytes.
const MaxTuningBytes = 1 << 20

// Bounds on what a file may hold.
const (
	mostTunedChoices = 64
	mostTunedResults = 8192
	mostTunedName    = 256 // bytes
)

// ParseTuning reads the JSON form of a Tuning, which is at most MaxTuningBytes
// long, and checks it. White space may differ from what AppendJSON writes,
// everything else may not: unknown, missing or repeated fields, another order,
// null and trailing text are errors, which name the place.
func ParseTuning(data []byte) (*Tuning, error) {
	if len(data) > MaxTuningBytes {
		return nil, fmt.Errorf("it has more than %d bytes, more than any tuning file", MaxTuningBytes)
	}
	var version struct {
		Version *int `json:"treerun_tuning"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return nil, fmt.Errorf("it is no tuning file: %w", err)
	}
	if version.Version == nil {
		return nil, errors.New(`it is no tuning file: there is no "treerun_tuning" with its version`)
	}
	if *version.Version != TuningVersion {
		return nil, fmt.Errorf("it has version %d, this treerun reads %d; tune anew", *version.Version, TuningVersion)
	}
	t := &Tuning{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(t); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is more text behind byte %d, the end of the JSON value", d.InputOffset())
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return t, sameText(t, data)
}

// sameText checks that data is what t is written as, but for white space: so
// nothing stands there twice, in the wrong case or as null.
func sameText(t *Tuning, data []byte) error {
	var want, got bytes.Buffer
	text, err := t.AppendJSON(nil)
	if err == nil {
		err = errors.Join(json.Compact(&want, text), json.Compact(&got, data))
	}
	if err != nil || bytes.Equal(want.Bytes(), got.Bytes()) {
		return err
	}
	w, g := want.Bytes(), got.Bytes()
	i := 0
	for i < min(len(w), len(g)) && w[i] == g[i] {
		i++
	}
	const around = 24
	return fmt.Errorf("it holds %.48q where %.48q was expected: fields stand once, in their order, and numbers in their shortest form",
		g[max(0, i-around):], w[max(0, i-around):])
}

// AppendJSON appends the canonical JSON form of t to b: the same Tuning is the
// same bytes. It fails where t is not valid.
func (t *Tuning) AppendJSON(b []byte) ([]byte, error) {
	if err := t.Validate(); err != nil {
		return b, err
	}
	c := *t
	if c.Measured == nil {
		c.Measured = []TunedResult{}
	}
	if c.Collectives == nil {
		c.Collectives = []TunedKind{}
	}
	text, err := json.MarshalIndent(&c, "", " ")
	return append(append(b, text...), '\n'), err
}

// Validate checks that t can be used: the shapes exist, fit their collectives and
// number of ranks, and every size has one.
func (t *Tuning) Validate() error {
	switch {
	case t.Version != TuningVersion:
		return fmt.Errorf("version is %d, want %d", t.Version, TuningVersion)
	case t.Ranks < 2 || t.Ranks > topo.MaxRanks:
		return fmt.Errorf("ranks is %d, want 2 to %d", t.Ranks, topo.MaxRanks)
	case t.Cores < 1 || t.Cores > topo.MaxRanks:
		return fmt.Errorf("cores is %d, want 1 to %d", t.Cores, topo.MaxRanks)
	case len(t.Host) > mostTunedName || len(t.Processor) > mostTunedName:
		return fmt.Errorf("host and processor have %d and %d bytes, want at most %d", len(t.Host), len(t.Processor), mostTunedName)
	case len(t.Measured) > mostTunedResults:
		return fmt.Errorf("measured has %d elements, want at most %d", len(t.Measured), mostTunedResults)
	}
	last := plan.Kind(0)
	for i, k := range t.Collectives {
		if k.Collective <= last || k.Collective > plan.AllToAll {
			return fmt.Errorf("collectives[%d] is %s, which stands there twice or in the wrong place", i, k.Collective)
		}
		last = k.Collective
		if err := k.validate(t.Ranks); err != nil {
			return fmt.Errorf("collectives[%d] (%s): %w", i, k.Collective, err)
		}
	}
	for i, r := range t.Measured {
		_, known := shapeOf(r.Shape)
		if !known || r.Collective < plan.AllReduce || r.Collective > plan.AllToAll || r.Bytes < 0 || !(r.Us >= 0 && r.Us <= math.MaxFloat32) {
			return fmt.Errorf("measured[%d]: %s of %d bytes in shape %q in %v us cannot be", i, r.Collective, r.Bytes, r.Shape, r.Us)
		}
	}
	return nil
}

func (k *TunedKind) validate(ranks int) error {
	if n := len(k.Choices); n == 0 || n > mostTunedChoices {
		return fmt.Errorf("it has %d choices, want 1 to %d", n, mostTunedChoices)
	}
	names := PlanNames(k.Collective, ranks)
	from := int64(0)
	for i, c := range k.Choices {
		last := i == len(k.Choices)-1
		switch {
		case !slices.Contains(names, c.Shape):
			return fmt.Errorf("choices[%d] is shape %q, want one of %q for %d ranks", i, c.Shape, names, ranks)
		case last && c.BelowBytes != 0:
			return fmt.Errorf("choices[%d], the last, ends at %d bytes: larger messages have no shape", i, c.BelowBytes)
		case !last && c.BelowBytes <= from:
			return fmt.Errorf("choices[%d] ends at %d bytes, want more than %d", i, c.BelowBytes, from)
		}
		from = c.BelowBytes
	}
	return nil
}

// PlanNames returns the names of the shapes of plan among which c chooses for a
// collective, at least one, for WithPlan. It must not run beside a call of the
// communicator.
func (c *Comm) PlanNames(kind plan.Kind) []string {
	if c.plans.hosts == nil {
		return PlanNames(kind, c.Size())
	}
	var names []string
	for _, s := range c.plans.fittingHosts(kind) {
		names = append(names, s.String())
	}
	return names
}

// PlanNames returns the names of the shapes of plan in which a collective can run
// on so many ranks of one host, at least one, for WithPlan and Tuning. Where it is one only,
// every communicator takes it, whatever WithPlan says.
func PlanNames(kind plan.Kind, ranks int) []string {
	var names []string
	for s := range shapes {
		if s.fits(kind) && s.reaches(ranks) {
			names = append(names, s.String())
		}
	}
	if len(names) == 0 {
		names = append(names, directOne.String()) // has no other
	}
	return names
}
