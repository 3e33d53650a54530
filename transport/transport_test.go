package transport

import (
	"strings"
	"testing"
)

func TestLayoutValidate(t *testing.T) {
	good := Layout{Size: 2, Slots: 2, SlotBytes: 64, Links: []Link{{0, 0, 1}, {0, 1, 0}, {1, 0, 1}}}
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
		"from itself":    {func(l *Layout) { l.Links[1] = Link{0, 1, 1} }, "link 1 "},
		"from outside":   {func(l *Layout) { l.Links[2] = Link{0, 2, 1} }, "link 2 "},
		"to outside":     {func(l *Layout) { l.Links[2] = Link{0, 1, -1} }, "link 2 "},
		"negative lane":  {func(l *Layout) { l.Links[0].Lane = -1 }, "link 0 "},
		"twice":          {func(l *Layout) { l.Links[2] = l.Links[0] }, "stands twice"},
	} {
		t.Run(name, func(t *testing.T) {
			l := good
			l.Links = append([]Link(nil), good.Links...)
			c.change(&l)
			if err := l.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}
