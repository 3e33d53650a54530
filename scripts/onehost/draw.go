package main

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/treerun/treerun/scripts/internal/plots"
)

// order is that of legends.
var order = []string{"treerun", "treerun-alloc", "openmpi", "mpich", "gloo"}

// drawn returns the times of one operation over size as an SVG file: a panel for
// each number of ranks.
func drawn(r record, op, title string, ranks []int) ([]byte, error) {
	const panel, height, top = 400, 400, 30 // points
	width := vg.Length(panel * len(ranks))
	sheet := plots.NewSheet(width, height)
	for i, np := range ranks {
		p, err := plots.Panel(fmt.Sprintf("%d ranks", np), order, r.sizes("sweep", op, np), func(who string, bytes int64) float64 { return r.cell("sweep", op, np, bytes, who) })
		if err != nil {
			return nil, fmt.Errorf("plot of %s, np=%d: %w", op, np, err)
		}
		p.Y.Tick.Marker = plot.TickerFunc(plots.FineTicks)
		p.Legend.XOffs, p.Legend.YOffs, p.Legend.Padding = vg.Points(-8), vg.Points(6), vg.Points(2)
		if i == 0 {
			style := p.Title.TextStyle
			style.Font.Size, style.Color, style.XAlign, style.YAlign = vg.Points(15), color.Black, draw.XCenter, draw.YCenter
			sheet.FillText(style, vg.Point{X: width / 2, Y: height - top/2}, title)
		}
		left := vg.Length(i * panel)
		p.Draw(draw.Crop(sheet.Canvas, left+8, left+panel-8-width, 8, -top))
	}
	return sheet.SVG()
}
