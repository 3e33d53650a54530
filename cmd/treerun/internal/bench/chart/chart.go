// Package chart draws the rows of treerun bench: time and bus bandwidth over the
// size of the message, side by side, as an SVG file. It is free of I/O. Only
// cmd/treerun's bench imports it.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/treerun/treerun/cmd/treerun/internal/bench/suite"
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

var signs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.RingGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}}

// curve is one line of the picture.
type curve struct {
	name        string
	time, busbw plotter.XYs
	floor       plotter.XYs // least time
}

// curves sorts rows into curves: in place apart from out of place, where there
// are both only the latter. Rows of size 0 are left out.
func curves(rows []*suite.Row) []*curve {
	var list []*curve
	byName := make(map[string]*curve)
	title := namer(rows)
	for _, r := range rows {
		if r.Bytes == 0 || r.TimeUs <= 0 || r.InPlace && hasOutOfPlace(rows, r) {
			continue
		}
		name := title(r)
		c := byName[name]
		if c == nil {
			c = &curve{name: name}
			byName[name], list = c, append(list, c)
		}
		x := float64(r.Bytes)
		c.time = append(c.time, plotter.XY{X: x, Y: r.TimeUs})
		c.busbw = append(c.busbw, plotter.XY{X: x, Y: r.BusbwGBs})
		c.floor = append(c.floor, plotter.XY{X: x, Y: r.FloorUs})
	}
	return list
}

func hasOutOfPlace(rows []*suite.Row, in *suite.Row) bool {
	for _, r := range rows {
		if !r.InPlace && r.Collective == in.Collective && r.Type == in.Type && r.Op == in.Op && r.Bytes == in.Bytes && r.InFlight == in.InFlight {
			return true
		}
	}
	return false
}

// namer returns how the curve of a row is called: by what differs between
// curves.
func namer(rows []*suite.Row) func(*suite.Row) string {
	types, ops := make(map[string]bool), make(map[string]bool)
	for _, r := range rows {
		if r.Bytes > 0 {
			types[r.Type] = true
		}
		if r.Op != "none" {
			ops[r.Op] = true
		}
	}
	return func(r *suite.Row) string {
		words := []string{r.Collective}
		if len(ops) > 1 && r.Op != "none" {
			words = append(words, r.Op)
		}
		if len(types) > 1 {
			words = append(words, r.Type)
		}
		if r.InFlight > 1 {
			words = append(words, fmt.Sprintf("%d in flight", r.InFlight))
		}
		if r.InPlace {
			words = append(words, "in place")
		}
		return strings.Join(words, " ")
	}
}

const (
	width, height = 980, 440 // points
	titleHeight   = 34
)

// SVG returns the picture. There must be a row.
func SVG(rows []*suite.Row) ([]byte, error) {
	list := curves(rows)
	time, busbw := newPlot("time (µs)"), newPlot("busbw (GB/s)")
	time.Y.Scale, time.Y.Tick.Marker = plot.LogScale{}, spaced{decades{}}
	busbw.Y.Tick.Marker = spaced{plot.DefaultTicks{}}
	for i, c := range list {
		if err := c.add(i, time, busbw); err != nil {
			return nil, err
		}
	}
	if len(list) == 1 {
		if err := addFloor(time, list[0]); err != nil {
			return nil, err
		}
	}
	widen(&time.X)
	widen(&busbw.X)
	widen(&time.Y)
	busbw.Y.Min, busbw.Y.Max = 0, max(busbw.Y.Max*1.08, 1e-3)
	return render(heading(rows), time, busbw)
}

// widen gives a logarithmic axis room around a single value, and some range
// where there is nothing to show.
func widen(a *plot.Axis) {
	switch {
	case a.Min > a.Max:
		a.Min, a.Max = 1, 1024
	case a.Max < 2*a.Min:
		a.Min, a.Max = a.Min/2, a.Max*2
	}
}

func render(title string, left, right *plot.Plot) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	style := left.Title.TextStyle
	style.Font.Size, style.Color = vg.Points(15), color.Black
	style.XAlign, style.YAlign = draw.XCenter, draw.YCenter
	whole.FillText(style, vg.Point{X: width / 2, Y: height - titleHeight/2}, title)
	left.Draw(draw.Crop(whole, 8, -width/2-8, 8, -titleHeight))
	right.Draw(draw.Crop(whole, width/2+8, -12, 8, -titleHeight))
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}

// heading names what all curves have in common.
func heading(rows []*suite.Row) string {
	r := rows[0]
	mode := "median of the slowest rank"
	if r.Mode == "stream" {
		mode = "back to back"
	}
	what := "collectives"
	for _, other := range rows {
		if other.Collective != r.Collective {
			return fmt.Sprintf("%s on %d ranks, %s", what, r.NP, mode)
		}
	}
	return fmt.Sprintf("%s on %d ranks, %s", r.Collective, r.NP, mode)
}

func newPlot(label string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = color.White
	p.X.Label.Text, p.Y.Label.Text = "message (bytes)", label
	p.X.Label.Padding, p.Y.Label.Padding = vg.Points(5), vg.Points(5)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, powers{}
	p.X.Tick.Length, p.Y.Tick.Length = vg.Points(5), vg.Points(5)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), vg.Points(-6)
	p.Legend.Padding, p.Legend.ThumbnailWidth = vg.Points(4), vg.Points(26)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xd4}, color.Gray{0xe8}
	p.Add(grid)
	return p
}

// add draws the curve in both plots.
func (c *curve) add(i int, time, busbw *plot.Plot) error {
	for _, one := range []struct {
		plot   *plot.Plot
		points plotter.XYs
	}{{time, c.time}, {busbw, c.busbw}} {
		line, marks, err := plotter.NewLinePoints(one.points)
		if err != nil {
			return fmt.Errorf("curve of %s: %w", c.name, err)
		}
		line.Color, line.Width = palette[i%len(palette)], vg.Points(1.8)
		marks.Color, marks.Shape, marks.Radius = palette[i%len(palette)], signs[i%len(signs)], vg.Points(2.6)
		one.plot.Add(line, marks)
		one.plot.Legend.Add(c.name, line, marks)
	}
	return nil
}

// addFloor draws the least time that any implementation could need.
func addFloor(p *plot.Plot, c *curve) error {
	for _, v := range c.floor {
		if v.Y <= 0 {
			return nil // one rank, and so few bytes that there is none
		}
	}
	line, err := plotter.NewLine(c.floor)
	if err != nil {
		return fmt.Errorf("limit of %s: %w", c.name, err)
	}
	line.Color, line.Width, line.Dashes = color.Gray{0x80}, vg.Points(1.4), []vg.Length{vg.Points(5), vg.Points(3)}
	p.Add(line)
	p.Legend.Add("limit of this machine", line)
	return nil
}
