package mem

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/transport"
	"github.com/treerun/treerun/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(t *testing.T, l transport.Layout) []transport.Endpoint {
		all, err := New(l)
		if err != nil {
			t.Fatal(err)
		}
		return all
	})
}

func TestBadLayout(t *testing.T) {
	if _, err := New(transport.Layout{Size: 2, Slots: 3, SlotBytes: 64}); err == nil {
		t.Error("3 slots: no error")
	}
}
