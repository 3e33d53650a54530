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
	sample sample            // in the first exchange: memory of this rank to try to read
	reads  bool              // in the second: it could read every other rank's
	bell   string            // name of its doorbell, in the first exchange, where there are any
	text   string            // why it failed; else the leader's address in the first exchange
}

const (
	reportVersion = 2
	reportHead    = 3 + sha256.Size + sampleBytes // version, status, bytes of bell, digest, sample
	maxBellName   = 100                           // bytes
	maxReportText = 512                           // bytes
)

func failure(err error) report { return report{failed: true, text: err.Error()} }

func (r *report) encode() []byte {
	b := make([]byte, reportHead, reportHead+len(r.bell)+len(r.text))
	b[0] = reportVersion
	if r.failed {
		b[1] = 1
	}
	if r.reads {
		b[1] |= 2
	}
	b[2] = byte(len(r.bell))
	copy(b[3:], r.digest[:])
	r.sample.put(b[3+sha256.Size:])
	b = append(b, r.bell...)
	return append(b, r.text[:min(len(r.text), maxReportText)]...)
}

func decodeReport(b []byte) (report, error) {
	switch {
	case len(b) < reportHead || len(b) > reportHead+maxBellName+maxReportText:
		return report{}, fmt.Errorf("report of %d bytes, want %d to %d", len(b), reportHead,
			reportHead+maxBellName+maxReportText)
	case b[0] != reportVersion:
		return report{}, fmt.Errorf("report of version %d, want %d (hint: all ranks must run the same build)", b[0],
			reportVersion)
	case b[1] > 3:
		return report{}, fmt.Errorf("report with status %d", b[1])
	}
	text := b[reportHead:]
	n := int(b[2])
	if n > maxBellName || n > len(text) || len(text)-n > maxReportText {
		return report{}, fmt.Errorf("report of %d bytes with a doorbell's name of %d", len(b), n)
	}
	r := report{failed: b[1]&1 != 0, reads: b[1]&2 != 0, sample: readSample(b[3+sha256.Size:]), bell: string(text[:n]),
		text: strings.ToValidUTF8(string(text[n:]), "?")}
	copy(r.digest[:], b[3:])
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
		} else if all[r].failed {
			failed = append(failed, fmt.Sprintf("rank %d: %s", rank(r), all[r].text))
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
		if all[r].digest != all[0].digest {
			other = append(other, fmt.Sprintf("rank %d has %x", rank(r), all[r].digest[:4]))
		}
	}
	if other == nil {
		return nil
	}
	return fmt.Errorf("layouts differ: rank %d has %x, %s (hint: all ranks must use the same plans, slots and slot size)",
		rank(0), all[0].digest[:4], strings.Join(other, ", "))
}
