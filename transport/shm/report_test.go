package shm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/treerun/treerun/internal/agree"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/transport/internal/osys"
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
func reported[T any](v T, failed error) (blob []byte) {
	_, _ = agree.Exchange(context.Background(), func(_ context.Context, b []byte) ([][]byte, error) {
		blob = b
		return nil, errors.New("not told")
	}, 1, nil, v, failed)
	return blob
}

// FuzzReport checks that the decoder accepts the encoder's output.
func FuzzReport(f *testing.F) {
	f.Add(reported(report{Bell: "treerun-y", Proof: [sha256.Size]byte{1}}, nil))
	f.Add(reported(report{}, errors.New("why")))
	f.Add(binary.LittleEndian.AppendUint64(nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := reportOf(b)
		if err != nil {
			return
		}
		if again, err := reportOf(reported(r, nil)); err != nil || again != r {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// The maker that cannot send the segment ends the wait of the other members.
func TestMakerWithoutSegment(t *testing.T) {
	var ends [2]*connecting
	var reports []report
	for r := range ends {
		ends[r] = &connecting{fd: -1, cfg: Config{Rank: r, Layout: testutil.Pair(2, 64), Key: testKey, JobID: "test"}}
		defer ends[r].release()
		rep, err := ends[r].prepare()
		if err != nil {
			t.Fatal(err)
		}
		reports = append(reports, rep)
	}
	_ = osys.CloseFD(ends[maker].fd)
	ends[maker].fd = -1
	if err := ends[maker].grant(t.Context(), reports); err == nil || !strings.Contains(err.Error(), "to rank 1") {
		t.Errorf("sending no segment: %v", err)
	}
	if err := ends[1].join(t.Context(), reports[1].Bell); !errors.Is(err, osys.ErrNone) {
		t.Errorf("rank 1: %v, want %v", err, osys.ErrNone)
	}
}
