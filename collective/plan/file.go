package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/treerun/treerun/internal/strict"
)

// MaxPlanBytes bounds a plan file, in bytes.
const MaxPlanBytes = 64 << 20

// File holds the contents of a plan file except the steps: how the plan was made and its cost. It is the JSON form that
// `treerun plan --format json` prints.
type File struct {
	Algorithm   string     `json:"algorithm"`
	Collective  Kind       `json:"collective"`
	Bytes       int64      `json:"bytes"`  // of the message it was made for
	Digest      string     `json:"digest"` // Plan.Digest of the steps
	PredictedUs float64    `json:"predicted_us"`
	Trees       []FileTree `json:"trees,omitempty"`
	Ring        []int      `json:"ring,omitempty"` // the order of a plan of one ring

	Rate           float64 `json:"rate_gbytes_per_second"` // of this message, as far as links and ports go; 0: unknown
	Bound          float64 `json:"bound_gbytes_per_second"`
	TightPartition [][]int `json:"tight_partition"` // of ranks: the source of the bound
	Note           string  `json:"note,omitempty"`

	Options       map[string]string `json:"options,omitempty"`         // by name, as flags have them
	MinChunkBytes int64             `json:"min_chunk_bytes,omitempty"` // of narrow lanes; 0: as wide ones
	ChunkBytes    int64             `json:"chunk_bytes,omitempty"`     // of the widest lane's chunks; 0: the executor's
}

// FileTree is one tree or ring of a plan. In a plan with parts it carries a share
// of the part of its root.
type FileTree struct {
	Root  int     `json:"root"`  // of a ring: where it begins
	Share float64 `json:"share"` // of the message; all sum up to 1

	// Rate is the part of the message that goes over it per second, in GB/s: its share of the plan's. In an AllGather
	// and a ReduceScatter the message is all parts together. It is not the load of a link: a tree puts its rate on a
	// link each way it is used, a ring 2(n-1)/n of it in an AllReduce, (n-1)/n where the message has parts.
	Rate float64 `json:"rate_gbytes_per_second"`

	Part   *int  `json:"part,omitempty"` // nil: it carries a share of the whole message
	Parent []int `json:"parent,omitempty"`
	Round  []int `json:"round,omitempty"`
	Ring   []int `json:"ring,omitempty"`
}

// fileForm is the whole of a plan file.
type fileForm struct {
	File
	Steps struct {
		Ranks int    `json:"ranks"`
		Root  *int   `json:"root,omitempty"` // where the kind has one
		Lanes []Lane `json:"lanes"`
	} `json:"steps"`
}

// Limits of the fields of a file other than its steps.
const (
	maxName     = 1 << 12      // bytes of that of an algorithm, which is printed
	maxElements = 2 * MaxRanks // of an array: the tracks of a lane
)

// Append appends the file of p to b, and a newline. It sets f.Collective and f.Digest to those of p. The same arguments
// give the same bytes, on every machine. It is an error to append a file that ParseFile would refuse.
func (f *File) Append(b []byte, p *Plan) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	f.Collective, f.Digest = p.Kind, p.Digest()
	if f.TightPartition == nil {
		f.TightPartition = [][]int{}
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("plan file: %w", err)
	}
	form := fileForm{File: *f}
	form.Steps.Ranks, form.Steps.Lanes = p.Size, p.Lanes
	if p.Kind.HasRoot() {
		form.Steps.Root = &p.Root
	}
	data, err := json.Marshal(form)
	switch {
	case err != nil:
		return nil, fmt.Errorf("plan file: %w", err)
	case len(data) > MaxPlanBytes:
		return nil, fmt.Errorf("plan file: %d bytes, want at most %d: the plan has too many steps", len(data), MaxPlanBytes)
	}
	return append(append(b, data...), '\n'), nil
}

// ParseFile reads a plan file. The plan has the name of its algorithm, and passes Validate; Verify checks whether it is
// correct. Unknown fields, fields that stand twice, null, and a text that ends too early or continues after its end are
// errors, and so is a digest that is not that of the steps. A file without a digest, such as one written by hand, is
// accepted.
func ParseFile(data []byte) (*File, *Plan, error) {
	f, p, err := parseFile(data)
	if err != nil {
		return nil, nil, fmt.Errorf("plan file: %w", err)
	}
	return f, p, nil
}

func parseFile(data []byte) (*File, *Plan, error) {
	var form fileForm
	limits := strict.JSONLimits{Bytes: MaxPlanBytes, Elements: maxElements, Partial: true}
	if err := strict.UnmarshalJSON(data, &form, limits); err != nil {
		return nil, nil, err
	}
	steps := &form.Steps
	p := &Plan{Name: form.Algorithm, Kind: form.Collective, Size: steps.Ranks, Root: -1, Lanes: steps.Lanes}
	switch {
	case len(steps.Lanes) == 0:
		return nil, nil, errors.New("steps.lanes is missing")
	case steps.Root != nil:
		p.Root = *steps.Root
	case p.Kind.HasRoot():
		return nil, nil, fmt.Errorf("steps.root is missing: %v has one", p.Kind)
	}
	if err := p.Validate(); err != nil {
		return nil, nil, err
	}
	f := &form.File
	if err := f.Check(p); err != nil {
		return nil, nil, errors.Join(err, Verify(p, 2))
	}
	f.Digest = p.Digest()
	return f, p, nil
}

// Check reports a file that is not that of the plan.
func (f *File) Check(p *Plan) error {
	if digest := p.Digest(); cmp.Or(f.Digest, digest) != digest {
		return fmt.Errorf("digest %q does not match the steps, which have %q: one of them was changed", f.Digest, digest)
	}
	return f.check()
}

// Chunks returns how the calls that run the plan cut their messages.
func (f *File) Chunks() Chunks {
	return Chunks{Max: int(f.ChunkBytes), Min: int(cmp.Or(f.MinChunkBytes, f.ChunkBytes))}
}

// check returns the first error in fields other than the steps. Rates, options, the note and the partition of the bound
// are for users; package planner compares the trees with the steps.
func (f *File) check() error {
	switch {
	case f.Algorithm == "":
		return errors.New("algorithm is missing")
	case len(f.Algorithm) > maxName || strings.ContainsFunc(f.Algorithm, unicode.IsControl):
		return fmt.Errorf("algorithm is %.40q: want at most %d bytes of printable text", f.Algorithm, maxName)
	case f.Bytes < 0:
		return fmt.Errorf("bytes is %d, want at least 0", f.Bytes)
	case f.ChunkBytes > 0 && f.MinChunkBytes > f.ChunkBytes:
		return fmt.Errorf("min_chunk_bytes is %d, want at most chunk_bytes, %d", f.MinChunkBytes, f.ChunkBytes)
	}
	if err := f.Chunks().Check(); err != nil {
		return fmt.Errorf("chunk_bytes: %w", err)
	}
	return nil
}

// MarshalText gives the rank and its steps as Step.String writes them, as in
// "1: to 0 = in; out = from 0".
func (t Track) MarshalText() ([]byte, error) {
	b := append(strconv.AppendInt(nil, int64(t.Rank), 10), ':')
	for j, s := range t.Steps {
		if j > 0 {
			b = append(b, ';')
		}
		b = s.appendTo(append(b, ' '))
	}
	return b, nil
}

// UnmarshalText accepts the output of MarshalText, and nothing else.
func (t *Track) UnmarshalText(text []byte) error {
	label, rest, ok := strings.Cut(string(text), ": ")
	rank, valid := rankIn(label)
	if !ok || !valid {
		return fmt.Errorf("%.40q does not begin with a rank and its steps, as in %q", text, "1: to 0 = in; out = from 0")
	}
	steps := strings.Split(rest, "; ")
	*t = Track{Rank: int(rank), Steps: make([]Step, len(steps))}
	for i, step := range steps {
		var err error
		if t.Steps[i], err = parseStep(step); err != nil {
			return fmt.Errorf("rank %d, step %d: %w", rank, i, err)
		}
	}
	return nil
}

// parseStep reads the output of Step.String, and nothing else.
func parseStep(text string) (Step, error) {
	s := Step{From: -1, To: -1}
	var want uses
	made, of, _ := strings.Cut(text, " = ")
	for _, term := range strings.Split(made, ", ") {
		want.to = parseTerm(term, "to ", &s.Dst, &s.To) || want.to
	}
	terms := strings.Split(of, " + ")
	for _, term := range terms {
		want.from = parseTerm(term, "from ", &s.Src, &s.From) || want.from
	}
	want.src, want.dst, want.acc = s.Src != None, s.Dst != None, len(terms) > 1 && !want.from
	s.Op = Op(max(0, slices.Index(opUses[:], want)))
	if s.String() != text { // some part was read wrongly, or not at all
		return s, fmt.Errorf("%.60q is no step: want one as %q, %q, %q or %q", text,
			"to 2 = in", "out = from 3", "tmp = in + from 3", "out, to 2 = out + from 3")
	}
	return s, nil
}

// parseTerm reads a rank behind the word, which it reports, or the name of a buffer.
func parseTerm(term, word string, b *Buf, rank *int32) bool {
	peer, ok := strings.CutPrefix(term, word)
	if ok {
		*rank, _ = rankIn(peer)
	} else if i := slices.Index(bufNames[:], term); i > 0 {
		*b = Buf(i)
	}
	return ok
}

// rankIn returns the rank in text, which must be a number in its shortest form.
func rankIn(text string) (int32, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int32(n), err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}
