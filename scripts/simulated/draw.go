package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// palette has colours that people who see fewer colours tell apart, after Okabe
// and Ito; every curve has a sign and a dash of its own beside.
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff},
	color.RGBA{0xd5, 0x5e, 0x00, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff},
}

var dashes = [][]vg.Length{nil, {vg.Points(6), vg.Points(3)}, {vg.Points(2), vg.Points(2)}, {vg.Points(8),
	vg.Points(2), vg.Points(2), vg.Points(2)}}

var signs = []draw.GlyphDrawer{draw.CircleGlyph{}, draw.BoxGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}}

// drawn returns the figure as an SVG file, both axes logarithmic but for quotients.
func drawn(f *Figure) ([]byte, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.XLabel, f.YLabel
	p.Title.TextStyle.Font.Size = vg.Points(14)
	p.Title.Padding = vg.Points(8)
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, decades{}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(8), vg.Points(-6)
	p.Legend.Padding = vg.Points(2)
	if f.Times {
		p.X.Tick.Marker, p.Y.Tick.Marker = atPoints(f.Series[0].Points), plot.TickerFunc(tenths)
		p.Legend.XOffs = vg.Points(360) // curves fall
	} else {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, decades{}
	}

	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xe0}, color.Gray{0xe0}
	p.Add(grid)
	for i, s := range f.Series {
		if err := addCurve(p, i, s); err != nil {
			return nil, err
		}
	}
	if err := addCrossings(p, f); err != nil {
		return nil, err
	}
	w, err := draw.NewFormattedCanvas(vg.Points(560), vg.Points(360), "svg")
	if err != nil {
		return nil, err
	}
	whole := draw.New(w)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	const margin = 8 // points; letters stand out of the box that the library gives them
	p.Draw(draw.Crop(whole, vg.Points(margin), vg.Points(-margin), vg.Points(margin), vg.Points(-margin)))
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.Bytes(), err
}

func addCurve(p *plot.Plot, i int, s Series) error {
	points := make(plotter.XYs, len(s.Points))
	for k, v := range s.Points {
		points[k].X, points[k].Y = v.X, v.Y
	}
	line, marks, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, line.Dashes, line.Width = palette[i%len(palette)], dashes[i%len(dashes)], vg.Points(1.8)
	marks.Color, marks.Shape, marks.Radius = palette[i%len(palette)], signs[i%len(signs)], vg.Points(2.6)
	p.Add(line, marks)
	p.Legend.Add(s.Name, line, marks)
	return nil
}

// addCrossings marks with a circle where curves cross.
func addCrossings(p *plot.Plot, f *Figure) error {
	var points plotter.XYs
	for _, c := range f.Crossings {
		for _, s := range f.Series {
			if s.Name == c.Below {
				points = append(points, plotter.XY{X: c.X, Y: at(s.Points, c.X)})
			}
		}
	}
	if len(points) == 0 {
		return nil
	}
	marks, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	marks.Color, marks.Shape, marks.Radius = color.Black, draw.RingGlyph{}, vg.Points(6)
	p.Add(marks)
	p.Legend.Add("where curves cross", marks)
	return nil
}

// at is the value of a curve between its points, on logarithmic axes.
func at(points []Point, x float64) float64 {
	for k := 1; k < len(points); k++ {
		a, b := points[k-1], points[k]
		if x <= b.X {
			t := math.Log(x/a.X) / math.Log(b.X/a.X)
			return math.Exp(math.Log(a.Y) + t*math.Log(b.Y/a.Y))
		}
	}
	return points[len(points)-1].Y
}

// decades puts a labelled tick at every power of ten, and small ones between.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(least, most float64) []plot.Tick {
	var list []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		ten := math.Pow(10, e)
		for k := 1.0; k < 10; k++ {
			if v := k * ten; v >= least*(1-1e-9) && v <= most*(1+1e-9) {
				tick := plot.Tick{Value: v}
				if k == 1 || most/least < 30 && (k == 2 || k == 5) {
					tick.Label = short(v)
				}
				list = append(list, tick)
			}
		}
	}
	return list
}

// atPoints puts a tick at every X of a curve.
func atPoints(points []Point) plot.ConstantTicks {
	var list []plot.Tick
	for _, p := range points {
		list = append(list, plot.Tick{Value: p.X, Label: short(p.X)})
	}
	return list
}

// tenths puts a tick at every tenth.
func tenths(least, most float64) []plot.Tick {
	var list []plot.Tick
	for k := math.Ceil(10 * least); k <= 10*most; k++ {
		list = append(list, plot.Tick{Value: k / 10, Label: fmt.Sprintf("%.1f", k/10)})
	}
	return list
}

// short writes 1000000 as 1M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return digitsOf(v/1e6) + "M"
	case v >= 1e3:
		return digitsOf(v/1e3) + "k"
	}
	return digitsOf(v)
}
