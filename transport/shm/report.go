package shm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/treerun/treerun/internal/strict"
)

// report is what a rank tells all others in each of the two exchanges, in msgpack.
type report struct {
	Version int
	Failed  bool
	Digest  [sha256.Size]byte // of the layout; zero when the layout is not valid
	Sample  sample            // in the first exchange: memory of this rank to try to read
	Reads   bool              // in the second: it could read every other rank's
	Bell    string            // name of its doorbell, in the first exchange, where there are any
	Text    string            // why it failed; else the leader's address in the first exchange
}

const (
	reportVersion = 3
	maxBellName   = 100 // bytes
	maxReportText = 512 // bytes
)

func failure(err error) report { return report{Failed: true, Text: err.Error()} }

func (r report) encode() []byte {
	r.Version, r.Text = reportVersion, r.Text[:min(len(r.Text), maxReportText)]
	return strict.Marshal(&r)
}

func decodeReport(b []byte) (r report, err error) {
	switch err := strict.Unmarshal(b, &r); {
	case err != nil || r.Version != reportVersion:
		return report{}, fmt.Errorf("report of version %d, want %d (hint: all ranks must run the same build): %v", r.Version,
			reportVersion, err)
	case len(r.Bell) > maxBellName || len(r.Text) > maxReportText:
		return report{}, fmt.Errorf("report with a doorbell's name of %d bytes and a text of %d", len(r.Bell), len(r.Text))
	}
	r.Text = strings.ToValidUTF8(r.Text, "?")
	return r, nil
}

// decodeReports decodes the blobs of an exchange, one per member, the i-th of
// which is rank(i). Its error, the
// same on all ranks, lists the ranks that failed and why.
func decodeReports(blobs [][]byte, rank func(i int) int) ([]report, error) {
	if len(blobs) == 0 {
		return nil, errors.New("exchange gave no blobs")
	}
	all := make([]report, len(blobs))
	var failed []string
	for r, b := range blobs {
		var err error
		if all[r], err = decodeReport(b); err != nil {
			failed = append(failed, fmt.Sprintf("rank %d: %v", rank(r), err))
		} else if all[r].Failed {
			failed = append(failed, fmt.Sprintf("rank %d: %s", rank(r), all[r].Text))
		}
	}
	if failed != nil {
		return nil, errors.New(strings.Join(failed, "; "))
	}
	return all, nil
}

// checkDigests returns an error, the same on all ranks, that names the ranks
// whose layout is not the first one's.
func checkDigests(all []report, rank func(i int) int) error {
	var other []string
	for r := range all {
		if all[r].Digest != all[0].Digest {
			other = append(other, fmt.Sprintf("rank %d has %x", rank(r), all[r].Digest[:4]))
		}
	}
	if other == nil {
		return nil
	}
	return fmt.Errorf("layouts differ: rank %d has %x, %s (hint: all ranks must use the same plans, slots and slot size)",
		rank(0), all[0].Digest[:4], strings.Join(other, ", "))
}
