package main

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/treerun/treerun/scripts/internal/plots"
)

// drawn returns the times over size as an SVG file: a row for each network with
// many sizes, a panel for each operation.
func drawn(r record) ([]byte, error) {
	const panel, height = 460, 360 // points
	networks, ops := []string{"even", "open"}, []string{"allreduce", "broadcast"}
	titles := map[string]string{"even": "500 Mbit/s, ", "open": "unshaped, "}
	wide, high := panel*vg.Length(len(ops)), height*vg.Length(len(networks))
	sheet := plots.NewSheet(wide, high)
	for i, network := range networks {
		for k, op := range ops {
			p, err := plots.Panel(titles[network]+op, r.who(network, op), r.sizes(network, op), func(who string, bytes int64) float64 { return r.cell(network, op, bytes, who) })
			if err != nil {
				return nil, fmt.Errorf("plot of %s, %s: %w", network, op, err)
			}
			p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, vg.Points(8)
			left, top := panel*vg.Length(k), height*vg.Length(i)
			p.Draw(draw.Crop(sheet.Canvas, left+8, left+panel-8-wide, high-top-height+8, -top-8))
		}
	}
	return sheet.SVG()
}
