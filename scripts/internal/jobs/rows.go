package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Row is what the benchmarks print of one size. The kit's have the first fields only.
type Row struct {
	Op     string  `json:"op"`         // collective
	Name   string  `json:"collective"` // of treerun, whose op is that of a reduction
	Bytes  int64   `json:"bytes"`
	TimeUs float64 `json:"time_us"`
	Wrong  *int64  `json:"wrong"` // elements; nil: nothing was compared
	Plan   string  `json:"plan"`

	InPlace     bool     `json:"in_place"`
	FloorUs     float64  `json:"floor_us"`
	PredictedUs *float64 `json:"predicted_us"`
	Sparse      *Sparse  `json:"sparse"` // of a sparse AllReduce
}

// Sparse is what treerun bench says of a sparse AllReduce.
type Sparse struct {
	Density float64 `json:"density"`
	Overlap string  `json:"overlap"`
	Form    string  `json:"form"`
	Union   float64 `json:"union_density"`
	Sent    int64   `json:"sent_bytes"`
	FindUs  float64 `json:"find_us"`
}

// Rows reads the lines of JSON that a benchmark has printed, among whatever else.
// Wrong elements are an error, and so are no rows at all.
func Rows(out []byte) ([]Row, error) {
	var all []Row
	for line := range bytes.Lines(out) {
		var r Row
		if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &r) != nil {
			continue
		}
		if r.Name != "" {
			r.Op = r.Name
		}
		if r.TimeUs <= 0 || r.Op == "" {
			continue
		}
		if r.Wrong != nil && *r.Wrong > 0 {
			return nil, fmt.Errorf("%d wrong elements in %s of %d bytes", *r.Wrong, r.Op, r.Bytes)
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no rows in %.200q", out)
	}
	return all, nil
}
