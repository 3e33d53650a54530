package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// page writes the page of results for people: gpucheck page [JSON] PAGE. Without
// results, or with those of a fake host, it says that there are none.
func page(args []string) error {
	if len(args) != 1 && len(args) != 2 {
		return errors.New("usage: gpucheck page [JSON] PAGE")
	}
	var r *results
	if len(args) == 2 {
		text, err := os.ReadFile(args[0])
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			r = &results{}
			if err := json.Unmarshal(text, r); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
		}
	}
	return os.WriteFile(args[len(args)-1], pageOf(r), 0o666)
}

const pageHead = `# treerun on a GPU

What ` + "`scripts/gpu-check.sh`" + ` finds on a machine with NVIDIA GPUs: whether kernels and
device calls are right, and how quick they are beside what the memory allows.

`

// pageOf is the page of r, nil for none.
func pageOf(r *results) []byte {
	var b bytes.Buffer
	b.WriteString(pageHead)
	if r == nil || r.Fake {
		b.WriteString(`**It has not been run on a real GPU yet.** All that is known of device calls was
found on the fake GPU host of the tests, whose figures say nothing of a GPU's. To
make this page:

    scripts/gpu-check.sh --json gpu-check.json
`)
		return b.Bytes()
	}
	fmt.Fprintf(&b, "%s, driver %s.\n\n", r.Date, r.Driver)
	for _, g := range r.GPUs {
		fmt.Fprintf(&b, "- %s\n", g)
	}
	b.WriteString("\n| what | how it went | |\n|---|---|---|\n")
	for _, s := range r.Steps {
		verdict := "ok"
		if !s.OK {
			verdict = "**failed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Name, verdict, cell(s.Text))
	}
	fmt.Fprintf(&b, "\n## Kernels\n\nBytes read plus written. The device copies its own memory at %.0f GB/s; wanted: "+
		"0.90 of that.\n\n| kernel | GB/s | of the copy |\n|---|---|---|\n", r.CopyGBs)
	for _, k := range r.Kernels {
		fmt.Fprintf(&b, "| %s | %.0f | %.2f |\n", k.Kernel, k.GBs, k.Share)
	}
	b.WriteString("\n## AllReduce on one GPU\n\n")
	if t := r.Processes; t != nil {
		fmt.Fprintf(&b, "%d processes: %.0f us. Processes take turns on a GPU unless MPS serves it: the kernels of two "+
			"never run at\nthe same time, and a change of process costs some ten microseconds.\n\n", t.Ranks, t.MedianUs)
	}
	if t := r.Latency; t != nil {
		fmt.Fprintf(&b, "8 bytes, 2 processes: %.1f us from the call until SyncDevice has returned.\n", t.MedianUs)
	}
	return b.Bytes()
}

// cell makes a text one line of a table: of a long one its beginning.
func cell(text string) string {
	const most = 600
	lines := strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	text = strings.ReplaceAll(strings.Join(lines, "<br>"), "|", "\\|")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " ..."
	}
	return text
}
