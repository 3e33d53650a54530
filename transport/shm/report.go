package shm

import (
	"cmp"
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
	Sample  sample            // in the first exchange: memory of this rank to try to read
	Bell    string            // in the first: name of its doorbell
	Proof   [sha256.Size]byte // in the first: that it is a rank's of this job, with this layout
	Reads   bool              // in the second: it could read every other rank's memory
	Text    string            // why it failed, or cannot read
}

const (
	reportVersion = 5
	maxBellName   = 100 // bytes
	maxReportText = 512 // bytes
)

// Failed says why the member with this blob of an exchange is not connected, "" when nothing is known against it.
func Failed(blob []byte) string {
	_, why := read(blob)
	return why
}

// read returns a report and why its rank is not connected, "" when nothing is known against it.
func read(blob []byte) (r report, why string) {
	r, err := decodeReport(blob)
	switch {
	case err != nil:
		why = err.Error()
	case r.Failed:
		why = cmp.Or(r.Text, "no reason")
	}
	return r, why
}

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
		var text string
		if all[r], text = read(b); text != "" {
			failed = append(failed, fmt.Sprintf("rank %d: %s", rank(r), text))
		}
	}
	if failed != nil {
		return nil, errors.New(strings.Join(failed, "; "))
	}
	return all, nil
}
