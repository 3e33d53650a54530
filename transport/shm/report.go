package shm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
)

// report is what a rank tells all others in each of the two exchanges.
type report struct {
	failed bool
	digest [sha256.Size]byte // of the layout; zero when the layout is not valid
	text   string            // why it failed; else the leader's address in the first exchange
}

const (
	reportVersion = 1
	reportHead    = 2 + sha256.Size
	maxReportText = 512 // bytes
)

func failure(err error) report { return report{failed: true, text: err.Error()} }

func (r *report) encode() []byte {
	b := make([]byte, reportHead, reportHead+len(r.text))
	b[0] = reportVersion
	if r.failed {
		b[1] = 1
	}
	copy(b[2:], r.digest[:])
	return append(b, r.text[:min(len(r.text), maxReportText)]...)
}

func decodeReport(b []byte) (report, error) {
	switch {
	case len(b) < reportHead || len(b) > reportHead+maxReportText:
		return report{}, fmt.Errorf("report of %d bytes, want %d to %d", len(b), reportHead, reportHead+maxReportText)
	case b[0] != reportVersion:
		return report{}, fmt.Errorf("report of version %d, want %d (hint: all ranks must run the same build)", b[0], reportVersion)
	case b[1] > 1:
		return report{}, fmt.Errorf("report with status %d", b[1])
	}
	r := report{failed: b[1] == 1, text: strings.ToValidUTF8(string(b[reportHead:]), "?")}
	copy(r.digest[:], b[2:])
	return r, nil
}

// decodeReports decodes the blobs of an exchange, one per rank. Its error, the
// same on all ranks, lists the ranks that failed and why.
func decodeReports(blobs [][]byte) ([]report, error) {
	if len(blobs) == 0 {
		return nil, errors.New("exchange gave no blobs")
	}
	all := make([]report, len(blobs))
	var failed []string
	for r, b := range blobs {
		var err error
		if all[r], err = decodeReport(b); err != nil {
			failed = append(failed, fmt.Sprintf("rank %d: %v", r, err))
		} else if all[r].failed {
			failed = append(failed, fmt.Sprintf("rank %d: %s", r, all[r].text))
		}
	}
	if failed != nil {
		return nil, errors.New(strings.Join(failed, "; "))
	}
	return all, nil
}

// checkDigests returns an error, the same on all ranks, that names the ranks
// whose layout is not rank 0's.
func checkDigests(all []report) error {
	var other []string
	for r := range all {
		if all[r].digest != all[0].digest {
			other = append(other, fmt.Sprintf("rank %d has %x", r, all[r].digest[:4]))
		}
	}
	if other == nil {
		return nil
	}
	return fmt.Errorf("layouts differ: rank 0 has %x, %s (hint: all ranks must use the same plans, slots and slot size)",
		all[0].digest[:4], strings.Join(other, ", "))
}
