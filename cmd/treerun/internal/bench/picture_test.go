//go:build linux

package bench

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func rowsOf(collective, op string, inPlace bool, typ string) []*Row {
	var rows []*Row
	for bytes := int64(8); bytes <= 1<<20; bytes *= 8 {
		us := 1 + float64(bytes)/1e4
		rows = append(rows, &Row{
			Collective: collective, NP: 4, Bytes: bytes, Type: typ, Op: op, InPlace: inPlace, Mode: "barrier",
			TimeUs: us, BusbwGBs: float64(bytes) / us / 1e3, FloorUs: us / 2,
		})
	}
	return rows
}

// drawn checks that the picture is well-formed, and returns its texts and its number of lines.
func drawn(t *testing.T, rows []*Row) (texts []string, paths int) {
	t.Helper()
	svg, err := picture(rows)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
		t.Fatalf("coordinates that are no numbers:\n%s", svg)
	}
	for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts, paths
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "path" {
				paths++
			}
		case xml.CharData:
			if text := strings.TrimSpace(string(token)); text != "" {
				texts = append(texts, text)
			}
		}
	}
}

// The picture has labels: the heading names the common properties of all curves, the legends the differences.
func TestPicture(t *testing.T) {
	allreduce, inPlace := rowsOf("allreduce", "sum", false, "float32"), rowsOf("allreduce", "sum", true, "float32")
	inFlight := rowsOf("allreduce", "sum", false, "float32")
	for _, r := range inFlight {
		r.InFlight = 150
	}
	barrier := &Row{Collective: "barrier", NP: 4, Type: "none", Op: "none", Mode: "barrier", TimeUs: 3}
	for name, c := range map[string]struct {
		rows  []*Row
		want  []string
		never string
	}{
		"one": {allreduce, []string{"allreduce on 4 ranks, median of the slowest rank", "allreduce",
			"limit of this machine", "8", "32K", "busbw (GB/s)"}, "float32"},
		"both":      {append(allreduce, inPlace...), []string{"allreduce"}, "in place"},
		"in flight": {append(inPlace, inFlight...), []string{"allreduce in place", "allreduce 150 in flight"}, "float32"},
		"in place":  {inPlace, []string{"allreduce in place", "limit of this machine"}, "float32"},
		"several": {append(append([]*Row{barrier}, allreduce...), rowsOf("broadcast", "none", false, "float32")...),
			[]string{"collectives on 4 ranks, median of the slowest rank", "allreduce", "broadcast"}, "limit"},
		"types": {append(rowsOf("reduce", "max", false, "int8"), rowsOf("reduce", "avg", false, "float64")...),
			[]string{"reduce max int8", "reduce avg float64"}, "limit"},
		"one size": {allreduce[:1], []string{"allreduce"}, "float32"},
		"barrier":  {[]*Row{barrier}, []string{"barrier on 4 ranks, median of the slowest rank"}, "limit"},
		"no time": {[]*Row{{Collective: "allreduce", NP: 1, Bytes: 8}},
			[]string{"allreduce on 1 rank, median of the slowest rank"}, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			texts, paths := drawn(t, c.rows)
			all := strings.Join(texts, "\n")
			for _, want := range c.want {
				if !strings.Contains("\n"+all+"\n", "\n"+want+"\n") {
					t.Errorf("%q is missing in\n%s", want, all)
				}
			}
			if strings.Contains(all, c.never) {
				t.Errorf("%q stands there:\n%s", c.never, all)
			}
			if paths < 4 { // the axes
				t.Errorf("%d lines", paths)
			}
		})
	}
}
