package transport

import (
	"strings"
	"testing"
)

func TestLayoutValidate(t *testing.T) {
	good := Layout{Size: 2, Slots: 2, SlotBytes: 64}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Layout)
		want   string
	}{
		"no ranks":       {func(l *Layout) { l.Size = 0 }, "0 ranks"},
		"negative ranks": {func(l *Layout) { l.Size = -1 }, "-1 ranks"},
		"many ranks":     {func(l *Layout) { l.Size = MaxRanks + 1 }, "65537 ranks"},
		"one slot":       {func(l *Layout) { l.Slots = 1 }, "1 slots"},
		"odd slots":      {func(l *Layout) { l.Slots = 6 }, "6 slots"},
		"many slots":     {func(l *Layout) { l.Slots = 2 * MaxSlots }, "2048 slots"},
		"no bytes":       {func(l *Layout) { l.SlotBytes = 0 }, "0 bytes"},
		"odd bytes":      {func(l *Layout) { l.SlotBytes = 96 }, "96 bytes"},
		"many bytes":     {func(l *Layout) { l.SlotBytes = MaxSlotBytes + 64 }, "67108928 bytes"},
		"no members":     {func(l *Layout) { l.Members = []int{} }, "without members"},
		"falling":        {func(l *Layout) { l.Members = []int{1, 0} }, "members [1 0]"},
		"outside":        {func(l *Layout) { l.Members = []int{0, 2} }, "members [0 2]"},
	} {
		t.Run(name, func(t *testing.T) {
			l := good
			c.change(&l)
			if err := l.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
