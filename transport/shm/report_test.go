package shm

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/treerun/treerun/transport"
)

// FuzzReport: the decoder accepts what the encoder writes, and what it accepts is in range.
func FuzzReport(f *testing.F) {
	ok := report{Bell: "treerun-y", Proof: [sha256.Size]byte{1}}
	f.Add(ok.encode())
	bad := failure(errors.New("why"))
	f.Add(bad.encode())
	f.Add(binary.LittleEndian.AppendUint64(nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeReport(b)
		if err != nil {
			return
		}
		again, err := decodeReport(r.encode())
		if len(r.Text) <= maxReportText && (err != nil || again != r) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		if _, err := decodeReports([][]byte{b, b}, new(transport.Layout).Member); (err != nil) != r.Failed {
			t.Fatalf("reports %+v: %v", r, err)
		}
	})
}
