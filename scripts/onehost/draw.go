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
	"gonum.org/v1/plot/vg/vgsvg"
)

// look is how an implementation is drawn: colours that people who see fewer
// colours tell apart, after Okabe and Ito, and a sign of its own.
type look struct {
	color color.Color
	sign  draw.GlyphDrawer
	title string
}

var looks = map[string]look{
	"treerun":       {color.RGBA{0x00, 0x72, 0xb2, 0xff}, draw.CircleGlyph{}, "treerun"},
	"treerun-alloc": {color.RGBA{0x56, 0xb4, 0xe9, 0xff}, draw.RingGlyph{}, "treerun, Alloc"},
	"openmpi":       {color.RGBA{0xd5, 0x5e, 0x00, 0xff}, draw.BoxGlyph{}, "Open MPI"},
	"mpich":         {color.RGBA{0x00, 0x9e, 0x73, 0xff}, draw.PyramidGlyph{}, "MPICH"},
	"gloo":          {color.RGBA{0xcc, 0x79, 0xa7, 0xff}, draw.CrossGlyph{}, "Gloo"},
}

// order is that of columns and legends.
var order = []string{"treerun", "treerun-alloc", "openmpi", "mpich", "gloo"}

// drawn returns the times of one operation over size as an SVG file: a panel for
// each number of ranks.
func drawn(r *record, op, title string, ranks []int) ([]byte, error) {
	const panel, height, top = 400, 400, 30 // points
	width := vg.Length(panel * len(ranks))
	canvas := vgsvg.New(width, height)
	whole := draw.New(canvas)
	whole.SetColor(color.White)
	whole.Fill(whole.Rectangle.Path())
	for i, np := range ranks {
		p, err := panelOf(r, op, np)
		if err != nil {
			return nil, fmt.Errorf("plot of %s, np=%d: %w", op, np, err)
		}
		if i == 0 {
			style := p.Title.TextStyle
			style.Font.Size, style.Color, style.XAlign, style.YAlign = vg.Points(15), color.Black, draw.XCenter, draw.YCenter
			whole.FillText(style, vg.Point{X: width / 2, Y: height - top/2}, title)
		}
		left := vg.Length(i * panel)
		p.Draw(draw.Crop(whole, left+8, left+panel-8-width, 8, -top))
	}
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	return b.Bytes(), err
}

func panelOf(r *record, op string, np int) (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = fmt.Sprintf("%d ranks", np)
	p.X.Label.Text, p.Y.Label.Text = "message (bytes)", "time (µs)"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOf2), plot.TickerFunc(powersOf10)
	p.Legend.XOffs, p.Legend.YOffs, p.Legend.Padding = vg.Points(-8), vg.Points(6), vg.Points(2)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xd4}, color.Gray{0xe8}
	p.Add(grid)
	for _, who := range order {
		var points plotter.XYs
		for _, bytes := range r.sizes("sweep", op, np) {
			if us := r.cell("sweep", op, np, bytes, who); us > 0 && bytes > 0 {
				points = append(points, plotter.XY{X: float64(bytes), Y: us})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		how := looks[who]
		line.Color, line.Width = how.color, vg.Points(1.8)
		marks.Color, marks.Shape, marks.Radius = how.color, how.sign, vg.Points(2.6)
		p.Add(line, marks)
		p.Legend.Add(how.title, line, marks)
	}
	widen(&p.X)
	widen(&p.Y)
	return p, nil
}

// widen gives a logarithmic axis room around a single value.
func widen(a *plot.Axis) {
	switch {
	case a.Min > a.Max:
		a.Min, a.Max = 1, 1024
	case a.Max < 2*a.Min:
		a.Min, a.Max = a.Min/2, a.Max*2
	}
}

// powersOf2 puts a tick at every power of 2 and labels at 8 B, 256 B, 8 KiB, ....
func powersOf2(least, most float64) []plot.Tick {
	var list []plot.Tick
	for e := int(math.Ceil(math.Log2(least) - 1e-9)); e <= int(math.Floor(math.Log2(most)+1e-9)); e++ {
		tick := plot.Tick{Value: math.Ldexp(1, e)}
		if e%5 == 3 && e >= 0 && e < 62 {
			tick.Label = size(1 << e)
		}
		list = append(list, tick)
	}
	return list
}

func powersOf10(least, most float64) []plot.Tick {
	var list []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, e)
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: v}
			if k == 1 {
				tick.Label = fmt.Sprintf("%g", v) + " "
			}
			list = append(list, tick)
		}
	}
	return list
}
