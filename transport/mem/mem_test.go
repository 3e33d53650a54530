package mem

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/treerun/treerun/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBadLayout(t *testing.T) {
	if _, err := New(transport.Layout{Size: 2, Slots: 3, SlotBytes: 64}); err == nil {
		t.Error("3 slots: no error")
	}
}
