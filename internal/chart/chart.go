// Package chart draws curves over the size of a message, or over another count, as
// SVG files: those of treerun bench and those of docs/results. It is free of I/O and
// imports nothing of treerun's.
package chart

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"unicode/utf8"
)

// palette has colours that people who see fewer colours tell apart, after Okabe
// and Ito; every curve has a sign of its own beside.
var palette = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#555555", "#8c6d31"}

// signs are drawn around the point 0, 0.
var signs = []string{`<circle r="3"/>`, `<path d="M-3-3H3V3H-3Z"/>`, `<path d="M0-4L3.5 2.5H-3.5Z"/>`,
	`<circle r="3" fill="#fff"/>`, `<path d="M-3-3H3V3H-3Z" fill="#fff"/>`, `<path d="M0-4L3.5 2.5H-3.5Z" fill="#fff"/>`,
	`<path d="M-3-3L3 3M-3 3L3-3"/>`, `<path d="M-4 0H4M0-4V4"/>`}

// Point is one value of a curve.
type Point struct{ X, Y float64 }

// Curve is one curve; its place among those of a panel says its colour and sign. A curve without points is left out.
type Curve struct {
	Name   string
	Limit  bool    // a dashed line without signs
	Points []Point // by rising X, which is above 0
}

// Panel is one plot. X is logarithmic, and so is Y unless it is linear.
type Panel struct {
	Title, X, Y string
	Sizes       bool // X counts bytes, with ticks at powers of 2
	Linear      bool // Y is linear, and begins at 0
	Falling     bool // curves fall: the legend is at the right
	Curves      []Curve
}

// The measures of a picture, in pixels.
const (
	titleHeight                   = 34
	leftOf, rightOf, above, below = 64, 18, 34, 48 // around the curves of a panel
	legendLine, letter            = 17, 6.3
)

// picture is an SVG file that is being written.
type picture struct{ bytes.Buffer }

// SVG returns the panels, in rows, below a title if there is one. Every panel is as
// wide and high as given, in pixels.
func SVG(title string, width, height float64, rows ...[]Panel) ([]byte, error) {
	top := 0.0
	if title != "" {
		top = titleHeight
	}
	wide := width * float64(len(rows[0]))
	p := &picture{}
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" `, wide,
		height*float64(len(rows))+top)
	p.WriteString(`font-family="Helvetica, Arial, sans-serif" font-size="12">` + "\n<defs>\n")
	for i, colour := range palette {
		fmt.Fprintf(p, `<g id="s%d" fill="%s" stroke="%[2]s" stroke-width="1.5">%s</g>`+"\n", i, colour, signs[i])
	}
	p.WriteString("</defs>\n" + `<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	p.text(wide/2, 0.7*top, `text-anchor="middle" font-size="17"`, title)
	for i, row := range rows {
		for k := range row {
			if err := p.panel(&row[k], width*float64(k), top+height*float64(i), width, height); err != nil {
				return nil, err
			}
		}
	}
	p.WriteString("</svg>\n")
	return p.Bytes(), nil
}

// text writes s, if it is not empty, with attributes of its element.
func (p *picture) text(x, y float64, more, s string) {
	if s != "" {
		fmt.Fprintf(p, `<text x="%.1f" y="%.1f" %s>%s</text>`+"\n", x, y, more, html.EscapeString(s))
	}
}

// line draws a line from point to point.
func (p *picture) line(colour string, width float64, more string, at ...Point) {
	fmt.Fprintf(p, `<path fill="none" stroke="%s" stroke-width="%g" %sd="`, colour, width, more)
	for i, v := range at {
		fmt.Fprintf(p, "%c%.1f %.1f", "ML"[min(i, 1)], v.X, v.Y)
	}
	p.WriteString(`"/>` + "\n")
}

// panel draws one into a box.
func (p *picture) panel(l *Panel, left, top, width, height float64) error {
	x := axis{least: math.Inf(1), log: true, from: left + leftOf, to: left + width - rightOf}
	y := axis{least: math.Inf(1), log: !l.Linear, from: top + height - below, to: top + above}
	for _, c := range l.Curves {
		for _, at := range c.Points {
			if !(at.X > 0) || !l.Linear && !(at.Y > 0) {
				return fmt.Errorf("curve of %s: %v, %v has no place on a logarithmic axis", c.Name, at.X, at.Y)
			}
			x.least, x.most = min(x.least, at.X), max(x.most, at.X)
			y.least, y.most = min(y.least, at.Y), max(y.most, at.Y)
		}
	}
	if l.Linear {
		y.least, y.most = 0, max(y.most*1.08, 1e-3)
	}
	x.widen()
	y.widen()
	ofX, ofY := decades, decades
	if l.Sizes {
		ofX = powers
	}
	if l.Linear {
		ofY = steps
	}
	for _, t := range ofX(x.least, x.most) {
		if at := x.at(t.Value); t.Label != "" {
			p.line("#e8e8e8", 1, "", Point{at, y.from}, Point{at, y.to})
			p.text(at, y.from+18, `text-anchor="middle"`, t.Label)
		}
		p.line("#444", 1, "", Point{x.at(t.Value), y.from}, Point{x.at(t.Value), y.from + 4})
	}
	for _, t := range ofY(y.least, y.most) {
		if at := y.at(t.Value); t.Label != "" {
			p.line("#d8d8d8", 1, "", Point{x.from, at}, Point{x.to, at})
			p.text(x.from-8, at+4, `text-anchor="end"`, t.Label)
		}
		p.line("#444", 1, "", Point{x.from - 4, y.at(t.Value)}, Point{x.from, y.at(t.Value)})
	}
	p.line("#444", 1, "", Point{x.from, y.to}, Point{x.from, y.from}, Point{x.to, y.from})
	middle := (x.from + x.to) / 2
	p.text(middle, y.to-12, `text-anchor="middle" font-size="14"`, l.Title)
	p.text(middle, y.from+38, `text-anchor="middle"`, l.X)
	p.text(0, 0, fmt.Sprintf(`text-anchor="middle" transform="translate(%.1f %.1f) rotate(-90)"`, left+16,
		(y.from+y.to)/2), l.Y)
	for i := range l.Curves {
		var points []Point
		for _, at := range l.Curves[i].Points {
			points = append(points, Point{x.at(at.X), y.at(at.Y)})
		}
		p.curve(l, i, points, points)
	}
	p.legend(l, &x, y.to+12)
	return nil
}

// curve draws the line of curve i, and its signs.
func (p *picture) curve(l *Panel, i int, line, signs []Point) {
	look := i % len(palette)
	if l.Curves[i].Limit {
		p.line("#808080", 1.5, `stroke-dasharray="6 4" `, line...)
		return
	}
	p.line(palette[look], 2, "", line...)
	for _, at := range signs {
		fmt.Fprintf(p, `<use href="#s%d" x="%.1f" y="%.1f"/>`+"\n", look, at.X, at.Y)
	}
}

// legend names the curves that have points, at the top of the panel.
func (p *picture) legend(l *Panel, x *axis, y float64) {
	longest, lines := 0, 0
	for _, c := range l.Curves {
		if len(c.Points) > 0 {
			longest, lines = max(longest, utf8.RuneCountInString(c.Name)), lines+1
		}
	}
	at, wide := x.from+10, 44+letter*float64(longest)
	if l.Falling {
		at = x.to - wide
	}
	fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%d" fill="#fff" fill-opacity="0.8"/>`+"\n", at-4, y-10,
		wide, legendLine*lines+2)
	for i := range l.Curves {
		if c := &l.Curves[i]; len(c.Points) > 0 {
			p.curve(l, i, []Point{{at, y}, {at + 28, y}}, []Point{{at + 14, y}})
			p.text(at+36, y+4, "", c.Name)
			y += legendLine
		}
	}
}
