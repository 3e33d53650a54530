package draw

import (
	"fmt"
	"strings"
	"testing"
)

// Warnings head the legend, red and in lines that fit; the picture is as wide as its title.
func TestWarningsAndTitle(t *testing.T) {
	g, p := square()
	p.Warnings = []string{"--max-height 1 is not kept", strings.Repeat("word ", 60)}
	p.Title = strings.Repeat("long title ", 20)
	svg := SVG(g, p)
	if lines := strings.Count(svg, `text-anchor="start" class="alarm"`); lines != 6 { // 60 words in lines of 12
		t.Errorf("%d lines of warnings, want 1 and 5", lines)
	}
	if !(strings.Index(svg, "max-height") < strings.Index(svg, ">4 ranks, 4 links<")) {
		t.Error("the warnings do not head the legend")
	}
	var width float64
	if _, err := fmt.Sscanf(svg[strings.Index(svg, `width="`):], `width="%f"`, &width); err != nil || width < 220*9 {
		t.Errorf("width %v for a title of 220 characters, %v", width, err)
	}
	if text := Text(g, p); !strings.Contains(text, "\nnote: --max-height 1 is not kept\nnote: word") {
		t.Errorf("%.400s", text)
	}
}
