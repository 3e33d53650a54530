// Package plots draws the times of implementations over size for the pages of
// docs/results. Only programs below scripts import it.
package plots

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/treerun/treerun/scripts/internal/results"
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
	"openmpi:ring":  {color.RGBA{0xe6, 0x9f, 0x00, 0xff}, draw.SquareGlyph{}, "Open MPI, ring"},
	"mpich":         {color.RGBA{0x00, 0x9e, 0x73, 0xff}, draw.PyramidGlyph{}, "MPICH"},
	"gloo":          {color.RGBA{0xcc, 0x79, 0xa7, 0xff}, draw.CrossGlyph{}, "Gloo"},
	"gloo:hd":       {color.RGBA{0x56, 0xb4, 0xe9, 0xff}, draw.PlusGlyph{}, "Gloo, hd"},
}

// Title returns what people call an implementation, "" for one that it knows not.
func Title(who string) string { return looks[who].title }

// Panel returns a plot of times over size, both axes logarithmic: a curve for each
// implementation in who for which time is known at some size. The caller places the
// legend.
func Panel(title string, who []string, sizes []int64, time func(who string, bytes int64) float64) (*plot.Plot, error) {
	p := plot.New()
	p.BackgroundColor = color.White
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "message (bytes)", "time (µs)"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOf2), plot.TickerFunc(powersOf10)
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xd4}, color.Gray{0xe8}
	p.Add(grid)
	for _, name := range who {
		var points plotter.XYs
		for _, bytes := range sizes {
			if us := time(name, bytes); us > 0 && bytes > 0 {
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
		how := looks[name]
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
			tick.Label = results.Size(1 << e)
		}
		list = append(list, tick)
	}
	return list
}

// powersOf10 puts a tick with a label at every power of 10.
func powersOf10(least, most float64) []plot.Tick {
	return slices.DeleteFunc(FineTicks(least, most), plot.Tick.IsMinor)
}

// FineTicks puts ticks at 1, 2, ..., 9 times every power of 10, with labels at the
// powers.
func FineTicks(least, most float64) []plot.Tick {
	var list []plot.Tick
	for e := math.Floor(math.Log10(least)); e <= math.Ceil(math.Log10(most)); e++ {
		for k := 1.0; k < 10; k++ {
			v := k * math.Pow(10, e)
			if v < least*(1-1e-9) || v > most*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: v}
			if k == 1 {
				tick.Label = fmt.Sprintf("%g ", v)
			}
			list = append(list, tick)
		}
	}
	return list
}

// Sheet is a white page for plots.
type Sheet struct {
	draw.Canvas
	svg *vgsvg.Canvas
}

// NewSheet returns a page of this size, in points.
func NewSheet(width, height vg.Length) *Sheet {
	svg := vgsvg.New(width, height)
	s := &Sheet{draw.New(svg), svg}
	s.SetColor(color.White)
	s.Fill(s.Rectangle.Path())
	return s
}

// SVG returns what was drawn as an SVG file.
func (s *Sheet) SVG() ([]byte, error) {
	var b bytes.Buffer
	_, err := s.svg.WriteTo(&b)
	return b.Bytes(), err
}
