// Package chart draws curves over the size of a message, or over another count, as
// SVG files: those of treerun bench and those of docs/results. It is free of I/O and
// imports nothing of treerun's.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// palette has colours that people who see fewer colours tell apart, after Okabe
// and Ito; every curve has a sign of its own beside.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff},
	color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff},
	color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	color.RGBA{0xe6, 0x9f, 0x00, 0xff},
	color.RGBA{0x55, 0x55, 0x55, 0xff},
	color.RGBA{0x8c, 0x6d, 0x31, 0xff},
}

var signs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{},
	draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// Point is one value of a curve.
type Point = plotter.XY

// Kind says how a curve is drawn.
type Kind int

// A curve is a line with signs, a dashed line without, or rings alone.
const (
	Line Kind = iota
	Limit
	Rings
)

// Curve is one curve. A curve without points is left out.
type Curve struct {
	Name   string
	Look   int // its colour and sign
	Kind   Kind
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

const (
	titleHeight = 34 // points
	margin      = 8  // letters stand out of the box that the library gives them
)

// SVG returns the panels, in rows, below a title if there is one. Every panel is as
// wide and high as given, in points.
func SVG(title string, width, height float64, rows ...[]Panel) ([]byte, error) {
	w, h, top := vg.Length(width), vg.Length(height), vg.Length(0)
	if title != "" {
		top = titleHeight
	}
	wide, high := w*vg.Length(len(rows[0])), h*vg.Length(len(rows))+top
	svg := vgsvg.New(wide, high)
	whole := draw.New(svg)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	style := plot.New().Title.TextStyle
	style.Font.Size, style.XAlign, style.YAlign = vg.Points(15), draw.XCenter, draw.YCenter
	whole.FillText(style, vg.Point{X: wide / 2, Y: high - top/2}, title)
	for i, row := range rows {
		for k := range row {
			p, err := row[k].plot()
			if err != nil {
				return nil, err
			}
			left, above := w*vg.Length(k), top+h*vg.Length(i)
			p.Draw(draw.Crop(whole, left+margin, left+w-margin-wide, high-above-h+margin, -above-margin))
		}
	}
	var b bytes.Buffer
	_, err := svg.WriteTo(&b)
	return b.Bytes(), err
}

func (l *Panel) plot() (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = l.Title, l.X, l.Y
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(5), vg.Points(5)
	p.X.Tick.Length, p.Y.Tick.Length = vg.Points(5), vg.Points(5)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(decades)
	if l.Sizes {
		p.X.Tick.Marker = plot.TickerFunc(powers)
	}
	if l.Linear {
		p.Y.Tick.Marker = spaced(plot.DefaultTicks{}.Ticks)
	} else {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, spaced(decades)
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), vg.Points(-6)
	if l.Falling {
		p.Legend.XOffs = vg.Points(360) // its words at the left of the signs would run into them
	}
	p.Legend.Padding, p.Legend.ThumbnailWidth = vg.Points(3), vg.Points(26)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xd4}, color.Gray{0xe8}
	p.Add(grid)
	for _, c := range l.Curves {
		err := c.add(p)
		for _, at := range c.Points {
			if !(at.X > 0) || !l.Linear && !(at.Y > 0) {
				err = fmt.Errorf("%v, %v has no place on a logarithmic axis", at.X, at.Y)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("curve of %s: %w", c.Name, err)
		}
	}
	widen(&p.X)
	most := p.Y.Max
	widen(&p.Y)
	if l.Linear {
		p.Y.Min, p.Y.Max = 0, max(most*1.08, 1e-3)
	}
	return p, nil
}

func (c *Curve) add(p *plot.Plot) error {
	if len(c.Points) == 0 {
		return nil
	}
	line, marks, err := plotter.NewLinePoints(plotter.XYs(c.Points))
	if err != nil {
		return err
	}
	line.Color, line.Width = palette[c.Look%len(palette)], vg.Points(1.8)
	marks.Color, marks.Shape, marks.Radius = line.Color, signs[c.Look%len(signs)], vg.Points(2.6)
	switch c.Kind {
	case Limit:
		line.Color, line.Width, line.Dashes = color.Gray{0x80}, vg.Points(1.4), []vg.Length{5, 3}
		p.Add(line)
		p.Legend.Add(c.Name, line)
	case Rings:
		marks.Color, marks.Shape, marks.Radius = color.Black, draw.RingGlyph{}, vg.Points(6)
		p.Add(marks)
		p.Legend.Add(c.Name, marks)
	default:
		p.Add(line, marks)
		p.Legend.Add(c.Name, line, marks)
	}
	return nil
}

// widen gives an axis room around a single value, and some range where there is
// nothing to show.
func widen(a *plot.Axis) {
	switch {
	case a.Min > a.Max:
		a.Min, a.Max = 1, 1024
	case a.Max < 2*a.Min:
		a.Min, a.Max = a.Min/2, a.Max*2
	}
}

// powers puts ticks at powers of 2, with labels as sizes are written on the
// command line, as many as fit.
func powers(least, most float64) []plot.Tick {
	const labels = 9
	first, last := int(math.Ceil(math.Log2(least)-1e-9)), int(math.Floor(math.Log2(most)+1e-9))
	step := max(1, (last-first+labels-1)/labels)
	var list []plot.Tick
	for e := first; e <= last; e++ {
		tick := plot.Tick{Value: math.Ldexp(1, e)}
		if (e-first)%step == 0 && e >= 0 {
			unit := min(e/10, 4)
			tick.Label = fmt.Sprint(math.Ldexp(1, e-10*unit), []string{"", "K", "M", "G", "T"}[unit])
		}
		list = append(list, tick)
	}
	return list
}

// decades puts a labelled tick at every power of ten, and small ones between, with
// labels at 2 and 5 where there are few powers of ten.
func decades(least, most float64) []plot.Tick {
	var list []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, e)
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: v}
			if k == 1 || most/least < 100 && (k == 2 || k == 5) {
				tick.Label = short(v)
			}
			list = append(list, tick)
		}
	}
	return list
}

// spaced keeps the labels of the vertical axis away from the ticks, also where the
// reader's font is a little wider.
func spaced(ticks plot.TickerFunc) plot.TickerFunc {
	return func(least, most float64) []plot.Tick {
		list := ticks(least, most)
		for i := range list {
			if list[i].Label != "" {
				list[i].Label += "  "
			}
		}
		return list
	}
}

// short writes 1000000 as 1M.
func short(v float64) string {
	unit := ""
	switch {
	case v >= 1e6:
		v, unit = v/1e6, "M"
	case v >= 1e3:
		v, unit = v/1e3, "k"
	}
	return strconv.FormatFloat(v, 'g', 4, 64) + unit
}
