package chart

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// The colors that have a meaning, as classes of elements.
const (
	Ink   = "ink"   // of text
	Paper = "paper" // behind all
	Line  = "line"  // of objects
	Faint = "faint" // of the least important lines
	Alarm = "alarm" // of excess
)

// Colors holds the colors of the classes on a light and on a dark page. Those of Curves can be distinguished by
// people of all kinds of color vision.
var Colors = [][3]string{{Ink, "#222222", "#e6e6e6"}, {Paper, "#ffffff", "#14171a"}, {Line, "#767c84", "#8b929b"},
	{Faint, "#d3dae2", "#3a424c"}, {Alarm, "#b00000", "#ff7b72"}, {"c0", "#0072b2", "#4aa3e8"},
	{"c1", "#d55e00", "#f58231"}, {"c2", "#009e73", "#2fc096"}, {"c3", "#9e118b", "#e596d4"},
	{"c4", "#0f93ff", "#cbf7ff"}, {"c5", "#511e09", "#e8d29e"}, {"c6", "#7e8f4b", "#1ffe54"},
	{"c7", "#230cc3", "#867ff4"}, {"c8", "#140463", "#b52dff"}, {"c9", "#23000a", "#a075b4"}}

// Curves is the number of colors for curves and trees.
const Curves = 10

// Color returns the class of the i-th curve or tree.
func Color(i int) string { return fmt.Sprintf("c%d", i%Curves) }

// Point is a place in a picture; y grows downwards.
type Point struct{ X, Y float64 }

// At returns the point x, y.
func At(x, y float64) Point { return Point{x, y} }

// Add returns p plus f times q.
func (p Point) Add(q Point, f float64) Point {
	return Point{p.X + float64(f*q.X), p.Y + float64(f*q.Y)}
}

// Box is a part of a picture that an element takes.
type Box struct{ Left, Top, Right, Bottom float64 }

// Around returns the box around a point, with the given distances to its sides.
func Around(p Point, wide, high float64) Box {
	return Box{p.X - wide, p.Y - high, p.X + wide, p.Y + high}
}

// Width returns about the width of a text of a height, in a sans-serif font.
func Width(s string, size float64) float64 {
	return float64(size * 0.57 * float64(utf8.RuneCountInString(s)))
}

// TextBox returns the box of a text whose baseline begins, has its middle or ends at p.
func TextBox(p Point, size float64, anchor, s string) Box {
	wide := Width(s, size)
	left := p.X - float64(wide*map[string]float64{"middle": 0.5, "end": 1}[anchor])
	return Box{left, p.Y - float64(0.8*size), left + wide, p.Y + float64(0.25*size)}
}

// File is an SVG file that is being written.
type File struct {
	bytes.Buffer
	Corner Point // of all text and boxes, below and right
	taken  []Box
}

// Take keeps text that is placed later away from a box.
func (f *File) Take(b Box) {
	f.taken = append(f.taken, b)
	f.Corner = Point{max(f.Corner.X, b.Right), max(f.Corner.Y, b.Bottom)}
}

// Free reports whether a box is clear of all taken boxes.
func (f *File) Free(b Box) bool {
	return !slices.ContainsFunc(f.taken, func(t Box) bool {
		return b.Left < t.Right && t.Left < b.Right && b.Top < t.Bottom && t.Top < b.Bottom
	})
}

// Text writes a line of text, if it is not empty, in a color, and takes its box.
func (f *File) Text(p Point, size float64, anchor, class, s string) {
	if s == "" {
		return
	}
	f.Take(TextBox(p, size, anchor, s))
	fmt.Fprintf(f, `<text x="%.1f" y="%.1f" font-size="%g" text-anchor="%s" class="%s">%s</text>`+"\n", p.X, p.Y, size,
		anchor, class, html.EscapeString(s))
}

// Path draws lines from point to point; the title is shown where the mouse points at the path.
func (f *File) Path(class string, width float64, more, title string, at ...Point) {
	fmt.Fprintf(f, `<path class="%s" fill="none" stroke="currentColor" stroke-width="%.1f"%s d="`, class, width, more)
	for i, v := range at {
		fmt.Fprintf(f, "%c%.1f %.1f", "ML"[min(i, 1)], v.X, v.Y)
	}
	f.WriteString(`"` + titled("path", title))
}

// titled ends the tag of an element, and the element, with a title if there is one.
func titled(element, title string) string {
	if title == "" {
		return "/>\n"
	}
	return "><title>" + html.EscapeString(title) + "</title></" + element + ">\n"
}

// Box draws a box with round corners, filled with paper.
func (f *File) Box(b Box, round float64, class string, width float64, title string) {
	fmt.Fprintf(f, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="%.1f" class="%s on" `, b.Left, b.Top,
		b.Right-b.Left, b.Bottom-b.Top, round, class)
	fmt.Fprintf(f, `stroke="currentColor" stroke-width="%.1f"%s`, width, titled("rect", title))
}

// Whole returns the file: its title, a longer description, and a margin around all elements.
func (f *File) Whole(title, about string, margin float64) []byte {
	var b bytes.Buffer
	wide, high := math.Ceil(f.Corner.X+margin), math.Ceil(f.Corner.Y+margin)
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0[1]f %.0[2]f" role="img" `,
		wide, high)
	fmt.Fprintf(&b, `font-family="Helvetica, Arial, sans-serif">`+"\n<title>%s</title>\n<desc>%s</desc>\n<style>\n%s",
		html.EscapeString(title), html.EscapeString(about), style(1))
	fmt.Fprintf(&b, "@media (prefers-color-scheme: dark) {\n%s}\n</style>\n", style(2))
	b.WriteString(`<rect width="100%" height="100%" class="paper" fill="currentColor"/>` + "\n")
	b.Write(f.Bytes())
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// style returns the styles of a light or a dark page.
func style(page int) string {
	var b strings.Builder
	for _, c := range Colors {
		fmt.Fprintf(&b, ".%s {color: %s}\n", c[0], c[page])
		if c[0] == Paper {
			fmt.Fprintf(&b, "text {fill: currentColor; stroke: %s; stroke-width: 3px; paint-order: stroke}\n.on {fill: %[1]s}\n",
				c[page])
		}
	}
	return b.String()
}
