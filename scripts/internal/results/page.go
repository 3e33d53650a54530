package results

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Page is a page of Markdown in the making, paragraph by paragraph.
type Page struct{ bytes.Buffer }

// Line writes a paragraph.
func (p *Page) Line(format string, args ...any) { fmt.Fprintf(p, format+"\n\n", args...) }

// Table writes a table, whose first row is its head.
func (p *Page) Table(rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(p, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(p, "|%s\n", strings.Repeat("---|", len(row)))
		}
	}
	p.WriteByte('\n')
}

// AwayRow is the row of a table that says how many cores others used while these
// figures were measured; nil if there are none.
func AwayRow(figures []*Figure) []string {
	if len(figures) == 0 {
		return nil
	}
	away := make([]float64, len(figures))
	for i, f := range figures {
		away[i] = f.Away
	}
	slices.Sort(away)
	return []string{"cores that others used during a job", fmt.Sprintf("median %.2f, 90th percentile %.2f, most %.2f", Median(away), away[len(away)*9/10], away[len(away)-1])}
}

// WriteBeside reads a record, makes files of it, given by name, and writes them
// into its folder.
func WriteBeside(record string, make func(text []byte) (map[string][]byte, error)) error {
	text, err := os.ReadFile(record)
	if err != nil {
		return err
	}
	files, err := make(text)
	if err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(filepath.Dir(record), name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Size writes a number of bytes as people do.
func Size(bytes int64) string {
	for _, u := range []struct {
		name  string
		shift int
	}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if bytes >= 1<<u.shift && bytes%(1<<u.shift) == 0 {
			return fmt.Sprintf("%d %s", bytes>>u.shift, u.name)
		}
	}
	return fmt.Sprintf("%d B", bytes)
}

// Number writes three digits, or all before the point; "-" for what is not known.
func Number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// Ratio writes a ratio, or a share; "-" for what is not known.
func Ratio(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

// Below writes a ratio, bold where it is less than a goal.
func Below(v, goal float64) string {
	if text := Ratio(v); text == "-" || v >= goal {
		return text
	}
	return "**" + Ratio(v) + "**"
}

// Sizes writes a list of sizes.
func Sizes(list []string) string {
	if len(list) == 0 {
		return "no size"
	}
	return strings.Join(list, ", ")
}
