// Package chart draws pictures as SVG files: curves over the size of a message, or over another count, for treerun
// bench and docs/lab; and the elements of the pictures of topo/draw: a head that screen readers can read and that
// follows light and dark, colors, and text that keeps clear of other text. It is free of I/O.
package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// signs are drawn around the point 0, 0; hollow ones are filled with the color of the paper.
var signs = [Curves]string{`<circle r="3"/>`, `<path d="M-3-3H3V3H-3Z"/>`, `<path d="M0-4L3.5 2.5H-3.5Z"/>`,
	`<circle r="3" class="on"/>`, `<path d="M-3-3H3V3H-3Z" class="on"/>`, `<path d="M0-4L3.5 2.5H-3.5Z" class="on"/>`,
	`<path d="M-3-3L3 3M-3 3L3-3"/>`, `<path d="M-4 0H4M0-4V4"/>`, `<path d="M0-4.5L4.5 0L0 4.5L-4.5 0Z"/>`,
	`<path d="M0-4.5L4.5 0L0 4.5L-4.5 0Z" class="on"/>`}

// dashes are those of the first five curves, of the next five, and so on: twenty curves
// look different in color and line, and ten in their signs as well.
var dashes = []string{"", ` stroke-dasharray="7 3"`, ` stroke-dasharray="2 3"`, ` stroke-dasharray="9 3 2 3"`}

// Curve is one curve; the index of its name among those of a picture determines its look. One without points is left
// out.
type Curve struct {
	Name   string
	Limit  bool    // a dotted line without signs
	Points []Point // by rising X, which is above 0
}

// Panel is one plot. X is logarithmic, and so is Y unless it is linear.
type Panel struct {
	Title, X, Y string
	Sizes       bool    // X counts bytes, with ticks at powers of 2
	Linear      bool    // Y is linear, and begins at 0
	MaxY        float64 // the end of Y where curves rise above it; 0: they all fit
	Curves      []Curve
}

// maxMultiple is the end of the axis of multiples: larger ones can be computed from the times themselves.
const maxMultiple = 16

// Over returns the panel next to l, which shows times: the times of the other curves as multiples of those of the curve
// of a name, which a logarithmic axis of many decades hides.
func (l Panel) Over(name string) Panel {
	base, times := make(map[float64]float64), l.Curves
	for _, c := range times {
		for _, at := range c.Points {
			if c.Name == name {
				base[at.X] = at.Y
			}
		}
	}
	l.Title = strings.TrimPrefix(l.Title+", against "+name, ", ")
	l.Y, l.MaxY, l.Curves = "time / "+name, maxMultiple, nil
	for _, c := range times {
		over := Curve{Name: c.Name, Limit: c.Limit}
		for _, at := range c.Points {
			if b := base[at.X]; b > 0 {
				over.Points = append(over.Points, Point{X: at.X, Y: at.Y / b})
			}
		}
		l.Curves = append(l.Curves, over)
	}
	return l
}

// Measures of a picture, in pixels.
const (
	titleHeight                   = 34
	leftOf, rightOf, above, below = 64, 18, 34, 48 // around the curves of a panel
	letters, legendLine           = 12, 18
)

// picture is an SVG file that is being written.
type picture struct {
	File
	curves []Curve // one of every name; its index determines its look
}

// SVG returns the panels, in rows, below a title if there is one, and above a legend. Every panel has the given width
// and height, in pixels.
func SVG(title string, width, height float64, rows ...[]Panel) ([]byte, error) {
	p, about := &picture{}, []string{}
	for _, row := range rows {
		for _, l := range row {
			about = append(about, strings.TrimPrefix(l.Title+": "+l.Y+" over "+l.X, ": "))
			for _, c := range l.Curves {
				if i := p.styleIndex(c.Name); i < 0 {
					p.curves = append(p.curves, c)
				} else if len(c.Points) > 0 {
					p.curves[i] = c
				}
			}
		}
	}
	p.WriteString("<defs>\n")
	for i, sign := range signs {
		fmt.Fprintf(p, `<g id="s%d" class="%s" fill="currentColor" stroke="currentColor" stroke-width="1.5">%s</g>`+"\n",
			i, Color(i), sign)
	}
	p.WriteString("</defs>\n")
	top, wide := 0.0, float64(width*float64(len(rows[0])))
	if title != "" {
		top = titleHeight
	}
	p.Text(At(wide/2, 0.7*top), 17, "middle", Ink, title)
	for _, row := range rows {
		if err := p.row(row, top, width, height); err != nil {
			return nil, err
		}
		top += height
	}
	p.Take(Box{Right: wide - letters, Bottom: top - letters})
	p.legend(wide, top+letters)
	return p.Whole(cmp.Or(title, rows[0][0].Title), strings.Join(about, "; "), letters), nil
}

// row draws panels side by side; panels of one quantity have the same axis for it.
func (p *picture) row(row []Panel, top, width, height float64) error {
	x, y := make([]axis, len(row)), make([]axis, len(row))
	for i := range row {
		var err error
		if x[i], y[i], err = row[i].axes(); err != nil {
			return err
		}
	}
	for i := range row {
		for k := range row {
			if row[i].Y == row[k].Y && row[i].Linear == row[k].Linear {
				y[i].min, y[i].max = min(y[i].min, y[k].min), max(y[i].max, y[k].max)
			}
		}
		left := float64(width * float64(i))
		x[i].from, x[i].to = left+leftOf, left+width-rightOf
		y[i].from, y[i].to = top+height-below, top+above
		p.panel(&row[i], x[i], y[i])
	}
	return nil
}

// axes returns the axes that hold all points of a panel.
func (l *Panel) axes() (x, y axis, err error) {
	x, y = axis{min: math.Inf(1), log: true}, axis{min: math.Inf(1), log: !l.Linear}
	for _, c := range l.Curves {
		for _, at := range c.Points {
			if !(at.X > 0) || !l.Linear && !(at.Y > 0) {
				return x, y, fmt.Errorf("curve of %s: %v, %v has no place on a logarithmic axis", c.Name, at.X, at.Y)
			}
			x.min, x.max = min(x.min, at.X), max(x.max, at.X)
			y.min, y.max = min(y.min, at.Y), max(y.max, at.Y)
		}
	}
	if l.Linear {
		y.min, y.max = 0, max(y.max*1.08, 1e-3)
	}
	if l.MaxY > 0 {
		y.max = min(y.max, l.MaxY)
	}
	x.widen()
	y.widen()
	return x, y, nil
}

// panel draws a panel between the ends of its axes.
func (p *picture) panel(l *Panel, x, y axis) {
	ofX, ofY := decades, decades
	if l.Sizes {
		ofX = powers
	}
	if l.Linear {
		ofY = steps
	}
	for _, t := range ofX(x.min, x.max) {
		at := x.at(t.Value)
		if t.Label != "" {
			p.Path(Faint, 1, "", "", At(at, y.from), At(at, y.to))
			p.Text(At(at, y.from+18), letters, "middle", Ink, t.Label)
		}
		p.Path(Ink, 1, "", "", At(at, y.from), At(at, y.from+4))
	}
	for _, t := range ofY(y.min, y.max) {
		at := y.at(t.Value)
		if t.Label != "" {
			p.Path(Faint, 1, "", "", At(x.from, at), At(x.to, at))
			p.Text(At(x.from-8, at+4), letters, "end", Ink, t.Label)
		}
		p.Path(Ink, 1, "", "", At(x.from-4, at), At(x.from, at))
	}
	p.Path(Ink, 1, "", "", At(x.from, y.to), At(x.from, y.from), At(x.to, y.from))
	middle := (x.from + x.to) / 2
	p.Text(At(middle, y.to-12), 14, "middle", Ink, l.Title)
	p.Text(At(middle, y.from+38), letters, "middle", Ink, l.X)
	fmt.Fprintf(p, `<g transform="translate(%.1f %.1f) rotate(-90)">`, x.from-leftOf+16, (y.from+y.to)/2)
	p.Text(At(0, 0), letters, "middle", Ink, l.Y)
	p.WriteString("</g>\n")
	const over = 5 // a sign at the end of an axis is whole
	fmt.Fprintf(p, `<svg x="%.1f" y="%.1f" width="%.1f" height="%.1f" viewBox="%.1[1]f %.1[2]f %.1[3]f %.1[4]f">`+"\n",
		x.from-over, y.to-over, x.to-x.from+2*over, y.from-y.to+2*over)
	for _, c := range l.Curves {
		var points []Point
		for _, at := range c.Points {
			points = append(points, At(x.at(at.X), y.at(at.Y)))
		}
		p.curve(&c, points, points)
	}
	p.WriteString("</svg>\n")
}

// curve draws the line of a curve, and its signs.
func (p *picture) curve(c *Curve, line, signs []Point) {
	look := p.styleIndex(c.Name)
	switch {
	case len(line) == 0:
		return
	case c.Limit:
		p.Path(Line, 1.5, ` stroke-dasharray="1 3"`, "", line...)
		return
	}
	p.Path(Color(look), 2, dashes[look/5%len(dashes)], "", line...)
	for _, at := range signs {
		fmt.Fprintf(p, `<use href="#s%d" x="%.1f" y="%.1f"/>`+"\n", look%Curves, at.X, at.Y)
	}
}

// legend names the curves that have points, below all panels, in columns.
func (p *picture) legend(wide, top float64) {
	column, at := 0.0, At(leftOf, top)
	for _, c := range p.curves {
		column = max(column, 56+Width(c.Name, letters))
	}
	for _, c := range p.curves {
		if len(c.Points) == 0 {
			continue
		}
		if at.X > leftOf && at.X+column > wide {
			at = At(leftOf, at.Y+legendLine)
		}
		p.curve(&c, []Point{at, at.Add(At(32, 0), 1)}, []Point{at.Add(At(16, 0), 1)})
		p.Text(at.Add(At(40, 4), 1), letters, "start", Ink, c.Name)
		at.X += column
	}
}

// styleIndex returns the index of a name among the curves, -1 for none.
func (p *picture) styleIndex(name string) int {
	return slices.IndexFunc(p.curves, func(c Curve) bool { return c.Name == name })
}
