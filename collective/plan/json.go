package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// MaxPlanBytes bounds the JSON form of a Plan, in bytes.
const MaxPlanBytes = 16 << 20

// The JSON form of a Plan. Names stand for kinds, ops and buffers; what a Step
// has no use for is left out.
type (
	planFile struct {
		Name  string     `json:"name"`
		Kind  Kind       `json:"kind"`
		Size  int        `json:"size"`
		Root  int        `json:"root"`
		Lanes []laneFile `json:"lanes"`
	}
	laneFile struct {
		Part   int         `json:"part,omitempty"`
		Weight float64     `json:"weight"`
		Tracks []trackFile `json:"tracks"`
	}
	trackFile struct {
		Rank  int        `json:"rank"`
		Steps []stepFile `json:"steps"`
	}
	stepFile struct {
		Op   Op     `json:"op"`
		Src  Buf    `json:"src,omitempty"`
		Dst  Buf    `json:"dst,omitempty"`
		From *int32 `json:"from,omitempty"`
		To   *int32 `json:"to,omitempty"`
	}
)

// AppendJSON appends the JSON form of p to b. The same plan gives the same
// bytes, on every machine. The error is for a plan that Validate refuses.
func (p *Plan) AppendJSON(b []byte) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	f := planFile{Name: p.Name, Kind: p.Kind, Size: p.Size, Root: p.Root}
	for _, l := range p.Lanes {
		lane := laneFile{Part: l.Part, Weight: l.Weight}
		for _, t := range l.Tracks {
			track := trackFile{Rank: t.Rank}
			for _, s := range t.Steps {
				track.Steps = append(track.Steps, stepFile{s.Op, s.Src, s.Dst, rankField(s.From), rankField(s.To)})
			}
			lane.Tracks = append(lane.Tracks, track)
		}
		f.Lanes = append(f.Lanes, lane)
	}
	data, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", p.Name, err)
	}
	return append(b, data...), nil
}

func rankField(r int32) *int32 {
	if r < 0 {
		return nil
	}
	return &r
}

func rankOf(field *int32) int32 {
	if field == nil {
		return -1
	}
	return *field
}

// ParsePlan reads the JSON form of a Plan and validates it; whether it is
// right is for Verify to say. Unknown fields and a text that ends too early or
// goes on are errors.
func ParsePlan(data []byte) (*Plan, error) {
	if len(data) > MaxPlanBytes {
		return nil, fmt.Errorf("plan: %d bytes of JSON, want at most %d", len(data), MaxPlanBytes)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var f planFile
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("plan: JSON, near byte %d of %d: %w", d.InputOffset(), len(data), err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("plan: JSON: more text behind the plan, from byte %d", d.InputOffset())
	}
	p := &Plan{Name: f.Name, Kind: f.Kind, Size: f.Size, Root: f.Root}
	for _, l := range f.Lanes {
		lane := Lane{Part: l.Part, Weight: l.Weight}
		for _, t := range l.Tracks {
			track := Track{Rank: t.Rank}
			for _, s := range t.Steps {
				track.Steps = append(track.Steps, Step{s.Op, s.Src, s.Dst, rankOf(s.From), rankOf(s.To)})
			}
			lane.Tracks = append(lane.Tracks, track)
		}
		p.Lanes = append(p.Lanes, lane)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return p, nil
}

// Digest is short for the JSON form: 16 hexadecimal digits of its SHA-256. It
// tells plans that differ by accident apart. Plans that Validate refuses get
// digests too, of what is wrong with them.
func (p *Plan) Digest() string {
	data, err := p.AppendJSON(nil)
	if err != nil {
		data = []byte(err.Error())
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// MarshalText gives the name of k, as String does.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes the name of a kind.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames[:], string(text))
	if len(text) == 0 || i < 0 {
		return fmt.Errorf("%q is no kind of collective", text)
	}
	*k = Kind(i)
	return nil
}

// MarshalText gives the name of o, as String does.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText takes the name of an op.
func (o *Op) UnmarshalText(text []byte) error {
	for i, u := range opUses {
		if len(text) > 0 && u.name == string(text) {
			*o = Op(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no op", text)
}

// MarshalText gives the name of b, as String does.
func (b Buf) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText takes the name of a buffer.
func (b *Buf) UnmarshalText(text []byte) error {
	i := slices.Index(bufNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("%q is no buffer", text)
	}
	*b = Buf(i)
	return nil
}
