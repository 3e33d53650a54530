//go:build linux

package bench

import (
	"encoding/json"
	"fmt"
)

// Row is the measurement of one case. Its JSON form is that of --json, one object per line; scripts rely on the names.
// Times are microseconds: of an iteration on its slowest rank, so that they are the same on all ranks. GB is 1e9 bytes.
type Row struct {
	Collective string `json:"collective"`
	NP         int    `json:"np"`
	Bytes      int64  `json:"bytes"`
	Count      int    `json:"count"`
	Type       string `json:"type"`
	Op         string `json:"op"`
	Root       int    `json:"root"`
	InPlace    bool   `json:"in_place"`
	InFlight   int    `json:"inflight"` // calls at once; bytes and count are those of one, times of all

	Mode   string `json:"mode"`   // barrier or stream
	Memory string `json:"memory"` // of the buffers: go, alloc for collective.Alloc, or device
	Iters  int    `json:"iters"`

	TimeUs float64 `json:"time_us"` // median over iterations; in mode stream their mean
	MeanUs float64 `json:"mean_us"`
	MinUs  float64 `json:"min_us"`
	P50Us  float64 `json:"p50_us,omitempty"` // percentiles: in mode barrier
	P90Us  float64 `json:"p90_us,omitempty"`
	P99Us  float64 `json:"p99_us,omitempty"`
	MaxUs  float64 `json:"max_us,omitempty"`

	AlgbwGBs float64 `json:"algbw_gbs"`
	BusbwGBs float64 `json:"busbw_gbs"`
	Wrong    *int64  `json:"wrong"` // elements over all ranks; null: not compared

	Sparse *Sparse `json:"sparse,omitempty"` // of a sparse collective

	Plan        string   `json:"plan"`         // "" where it is not known
	Algorithm   string   `json:"algorithm"`    // that made the plan, as `treerun plan` names it
	Digest      string   `json:"digest"`       // of the plan, as `treerun plan` prints it
	PredictedUs *float64 `json:"predicted_us"` // null where it is not known
	FloorUs     float64  `json:"floor_us"`     // the limit: see the package
	LimitShare  float64  `json:"limit_share"`  // FloorUs over TimeUs

	Explained *Explained `json:"explained,omitempty"` // with --explain, in place of times
}

// Explained is the comparison of all algorithms for one case; the plan of its row is the one that a job chooses.
type Explained struct {
	Candidates []Candidate `json:"candidates"` // at least one, in their order
	By         string      `json:"by"`         // the criterion of the choice
	Links      string      `json:"links"`      // the limit of the links
}

// Candidate is one algorithm.
type Candidate struct {
	Plan        string   `json:"plan"`
	Us          float64  `json:"us"`                     // median, on the slowest rank
	PredictedUs *float64 `json:"predicted_us,omitempty"` // where it is known
}

// Sparse holds the further columns of a row of a sparse collective. Bytes and blocks are those of the rank that has
// most.
type Sparse struct {
	Density       float64 `json:"density"` // of --density
	Overlap       string  `json:"overlap"`
	BlockSize     int     `json:"block"`
	Fill          float64 `json:"fill,omitempty"` // part of a block's elements that is not zero; 0: all are not
	Form          string  `json:"form"`           // in which the calls ran, as all have the same data: also the plan
	Blocks        int     `json:"blocks"`
	NonZero       int     `json:"nonzero"` // blocks of the rank with the most
	UnionDensity  float64 `json:"union_density"`
	SentBytes     int64   `json:"sent_bytes"`
	ReceivedBytes int64   `json:"received_bytes"`
	FindUs        float64 `json:"find_us"` // looking for blocks, on the slowest rank

	TreesUs   float64 `json:"trees_us"` // predicted; 0 where nothing was
	SharedUs  float64 `json:"shared_us"`
	DenseUs   float64 `json:"dense_us"`
	CompactUs float64 `json:"compact_us,omitempty"` // of devices
}

// Process is a process of the job.
type Process struct {
	PID    int    `json:"pid"`
	Host   string `json:"host"`
	Device string `json:"device"` // where it computes, in words
}

// Record is a line that rank 0 sends to the launcher: the ranks, once, or a row.
type Record struct {
	Ranks []Process `json:"ranks,omitempty"`
	Row   *Row      `json:"row,omitempty"`
}

// matches reports whether the row is one of this case on np ranks.
func (r *Row) matches(c *Case, np int) bool {
	return r.Collective == c.Name && r.NP == np && r.Bytes == c.Bytes && r.Count == c.Count &&
		r.Type == c.Type.Name && r.Op == c.Op && r.Root == c.Root && r.InPlace == c.InPlace && r.InFlight == c.Calls &&
		(!c.Sparse || r.Sparse != nil && r.Sparse.Density == c.Density && r.Sparse.Overlap == c.Overlap) &&
		(r.Explained == nil || len(r.Explained.Candidates) > 0)
}

// parseRecord reads a line that rank 0 sent.
func parseRecord(line []byte) (*Record, error) {
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return nil, fmt.Errorf("rank 0 sent %.80q in place of a result: %w", line, err)
	}
	if (len(r.Ranks) > 0) == (r.Row != nil) {
		return nil, fmt.Errorf("rank 0 sent %.80q, which is neither the ranks nor one row", line)
	}
	return &r, nil
}
