package shm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/treerun/treerun/internal/agree"
)

// reportOf returns the report in the blob that a rank sends in the first exchange, decoded in the same way as there.
func reportOf(blob []byte) (report, error) {
	gather := func(context.Context, []byte) ([][]byte, error) { return [][]byte{blob}, nil }
	all, err := agree.Exchange(context.Background(), gather, 1, nil, report{}, nil)
	if err != nil {
		return report{}, err
	}
	return all[0], nil
}

// told returns the blob that a rank sends after its step.
func told[T any](v T, failed error) (blob []byte) {
	_, _ = agree.Exchange(context.Background(), func(_ context.Context, b []byte) ([][]byte, error) {
		blob = b
		return nil, errors.New("not told")
	}, 1, nil, v, failed)
	return blob
}

// FuzzReport checks that the decoder accepts the encoder's output.
func FuzzReport(f *testing.F) {
	f.Add(told(report{Bell: "treerun-y", Proof: [sha256.Size]byte{1}}, nil))
	f.Add(told(report{}, errors.New("why")))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := reportOf(b)
		if err != nil {
			return
		}
		if again, err := reportOf(told(r, nil)); err != nil || again != r {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}
