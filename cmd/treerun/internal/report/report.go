// Package report makes the page of --report out of the recording of a job: one HTML file that contains its style, its
// script and its pictures, and requests nothing from anywhere. It has sums over ranks, the matrix of waits, the slowest
// calls, the faults, and pictures of the graph and of the plans. The command treerun imports it.
package report

import (
	"bytes"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/treerun/treerun/cmd/treerun/internal/recording"
)

// page has the facts about a job. Times are in seconds, since the beginning of the job or long.
type page struct {
	Program, Command, Job, Version string
	Began                          string // date and time, with the zone
	Took                           float64
	Code                           int
	Outcome                        string // "ended well", or what went wrong, in some words
	Failed                         bool
	Cause                          string // the block with the root cause; "": there is none

	Hosts    []host
	Ranks    []rank
	Totals   totals
	Pictures []picture // the graph, and the plans on it
	Graph    string    // why there is no picture; "": there is one
	Charts   []picture // achieved and predicted rates by size
	Calls    []callRow
	Matrix   *matrix // nil: no rank has waited for long
	Late     []late
	Slow     []slow
	Phases   []phase
	Faults   []fault
	Notes    []string // the missing parts of the page, and its accuracy
}

// host is a host of the job.
type host struct {
	Name  string
	Ranks string // a list
	Clock string // how well its clock is known
}

// rank is a process of a rank.
type rank struct {
	Rank, Attempt, PID  int
	Host                string
	Outcome             string
	Failed              bool
	Why                 string // why nothing of it was recorded; "": it was
	From, To            float64
	Setup, Moving, Wait float64 // joining, measuring and planning; in calls that move data; in calls that wait
	Calls, Bytes        int64
}

// totals are those of all ranks.
type totals struct {
	Calls, Bytes    int64
	InCalls, Waited float64 // shares of the time of all processes
}

// picture is an SVG file.
type picture struct {
	Title, About string
	SVG          string
}

// callRow is all calls of one sort and of like lengths, of all ranks.
type callRow struct {
	Call         string
	From, To     int64 // lengths in bytes: from From, below To
	Calls, Bytes int64
	Mean, Best   float64
	Predicted    float64 // 0: not known
	Bus          float64 // GB/s as nccl-tests counts them
	Bound        float64 // the share of the highest rate that any plan could reach; 0: not known
	Waited       float64 // all of it
	Sampled      bool    // times are those of samples: see sampled
}

// matrix shows who has waited for whom: a row for each rank that has waited, a column for each that was waited for.
type matrix struct {
	Rows, Columns []int
	Cells         [][]float64
	LeftOut       int // ranks without room
}

// late is a rank that others have waited for.
type late struct {
	Rank   int
	Host   string
	Waited float64 // by all others together
	Ranks  int     // that have waited
	Share  float64 // of all waits for a known rank
}

// slow is a call that took long, of all ranks the slowest one.
type slow struct {
	Rank                  int
	Call, Comm, Algorithm string
	Number                uint64
	Bytes                 int64
	At, Took, Waited      float64
	Predicted             float64 // 0: not known
	For                   string  // the ranks that it has waited for
	Failed                bool
}

// phase is the phases of one name, of all ranks: those of the program, and treerun's own.
type phase struct {
	Name       string
	Own        bool // the program's
	Count      int
	Ranks      int
	Mean, Most float64
	MostRank   int
}

// fault is the failure of a process.
type fault struct {
	At     float64
	Rank   int
	Host   string
	What   string // how it has ended
	Became string // what became of the job
}

//go:embed page.html page.css page.js
var files embed.FS

// HTML returns the page of a job that a treerun of this version has run.
func HTML(j *recording.Job, version string) ([]byte, error) { return html(newPage(j, version)) }

func html(p *page) ([]byte, error) {
	read := func(name string) string {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // it is built in
		}
		return string(data)
	}
	page, err := template.New("page").Funcs(template.FuncMap{
		"bytes": size, "time": duration, "percent": percent, "count": count, "rate": rate, "image": imageURL,
		"ratio": ratio, "cut": cut, "heat": (*matrix).heat, "parts": parts, "dash": dash,
		"next": func(n int) int { return n + 1 },
		"css":  func() template.CSS { return template.CSS(read("page.css")) },
		"js":   func() template.JS { return template.JS(read("page.js")) },
	}).Parse(read("page.html"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := page.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// imageURL returns a picture as a URL: the styles of pictures do not reach the page then, nor each other.
func imageURL(svg string) template.URL {
	return template.URL("data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(svg)))
}

// duration formats seconds with three digits.
func duration(s float64) string {
	switch a := math.Abs(s); {
	case a == 0:
		return "0"
	case a < 999.5e-6:
		return digits(s*1e6) + " µs"
	case a < 0.9995:
		return digits(s*1e3) + " ms"
	case a < 99.95:
		return digits(s) + " s"
	case a < 3600:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	}
	return fmt.Sprintf("%d h %02d min", int(s)/3600, int(s)/60%60)
}

// digits formats a number with three digits.
func digits(v float64) string {
	switch a := math.Abs(v); {
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func percent(share float64) string {
	switch {
	case share > 0 && share < 0.0005:
		return "< 0.1 %"
	case share < 0.0995:
		return fmt.Sprintf("%.1f %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// count formats a number with spaces between thousands.
func count(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func rate(gbs float64) string {
	if gbs == 0 {
		return "–"
	}
	return digits(gbs)
}

// size formats a number of bytes with three digits.
func size(n int64) string {
	const step = 1 << 10
	v, unit := float64(n), 0
	for ; v >= step && unit < len(units)-1; unit++ {
		v /= step
	}
	if v == math.Trunc(v) {
		return fmt.Sprintf("%.0f %s", v, units[unit])
	}
	return digits(v) + " " + units[unit]
}

var units = [...]string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

// ratio is how often b is in a, "–" where one is not known.
func ratio(a, b float64) string {
	if a == 0 || b == 0 {
		return "–"
	}
	return digits(a/b) + "×"
}

// dash returns text, and a dash for none.
func dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// cut bounds a share for a bar.
func cut(share float64) string { return fmt.Sprintf("%.2f", 100*min(max(share, 0), 1)) }

// heat is the share of a cell in the longest wait, 0 to 1.
func (m *matrix) heat(v float64) string {
	most := 0.0
	for _, row := range m.Cells {
		for _, c := range row {
			most = max(most, c)
		}
	}
	if most == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f", v/most)
}

// part is a part of the bar of a rank.
type part struct {
	Class, Name string
	Seconds     float64
	Width       string // percent
}

// parts returns the parts of the life of a process, whose bar has the length of the job.
func parts(r rank, took float64) []part {
	if took <= 0 {
		return nil
	}
	rest := max(0, r.To-r.From-r.Setup-r.Moving-r.Wait)
	all := []part{{"none", "not yet started", r.From, ""}, {"setup", "setup", r.Setup, ""},
		{"move", "calls", r.Moving, ""}, {"wait", "waiting", r.Wait, ""}, {"rest", "own work", rest, ""}}
	var shown []part
	for _, p := range all {
		if p.Seconds > 0 {
			p.Width = cut(p.Seconds / took)
			shown = append(shown, p)
		}
	}
	return shown
}

// About describes the bar of a rank in words.
func (r rank) About() string {
	var words []string
	for _, p := range parts(r, max(r.To, 1e-9)) {
		if p.Class != "none" {
			words = append(words, p.Name+" "+duration(p.Seconds))
		}
	}
	return strings.Join(words, ", ")
}
