package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
)

// method counts the changes to how links are measured, and to the form that is kept.
const method = 5

// Limits of a cached measurement.
const (
	maxKept    = 16 << 20 // bytes
	maxDropped = 1 << 12  // links
	maxFault   = 4 << 10  // bytes
)

// cacheFile is the cached result of a measurement, by a name that method is a part of.
type cacheFile struct {
	Graph   *topo.Graph `json:"graph"`
	Dropped []gpu.Drop  `json:"dropped,omitempty"`
}

// parseCache reads the cached result for the given number of ranks.
func parseCache(data []byte, ranks int) (*topo.Graph, []gpu.Drop, error) {
	var f cacheFile
	if err := strict.UnmarshalJSON(data, &f, strict.JSONLimits{Bytes: maxKept, Elements: topo.MaxLinks}); err != nil {
		return nil, nil, err
	}
	return f.Graph, f.Dropped, checkGraph(f.Graph, f.Dropped, ranks)
}

// checkGraph checks another process's graph and dropped links of a host with the given number of ranks.
func checkGraph(g *topo.Graph, dropped []gpu.Drop, ranks int) error {
	if g == nil {
		return errors.New("no graph")
	}
	if err := g.Validate(); err != nil {
		return err
	}
	if g.Ranks != ranks {
		return fmt.Errorf("a graph of %d ranks, want %d", g.Ranks, ranks)
	}
	if len(dropped) > maxDropped {
		return fmt.Errorf("%d links, at most %d are possible", len(dropped), maxDropped)
	}
	for _, d := range dropped {
		if d.A < 0 || d.A >= d.B || d.B >= ranks {
			return fmt.Errorf("it drops the link %d-%d of %d ranks", d.A, d.B, ranks)
		}
		if len(d.Fault) > maxFault || !utf8.ValidString(d.Fault) || strings.ContainsFunc(d.Fault, unicode.IsControl) {
			return errors.New("a fault that is too long, or no text")
		}
	}
	return nil
}

// file returns the name of the file that holds the results for h in o.Cache.
func (o *Options) file(h *HostResult) string {
	what := fmt.Sprintf("gpus %d\n%s\n%s", method, h.Machine.Driver, strings.Join(h.Devices, "\n"))
	return o.Cache.PathOf(what, len(h.Ranks))
}

// load returns the file that an earlier job has kept for h, nil when there is none that can be used.
func (o *Options) load(h *HostResult) []byte {
	if o.Cache == nil || o.Anew {
		return nil
	}
	file := o.file(h)
	data, err := o.Cache.Read(file)
	if err == nil && data != nil {
		_, _, err = parseCache(data, len(h.Ranks))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "treerun: %s: %v: GPUs are measured again\n", file, err)
		return nil
	}
	return data
}

// store keeps h for later jobs.
func (o *Options) store(h *HostResult) error {
	if o.Cache == nil {
		return nil
	}
	data, err := json.Marshal(cacheFile{h.Graph.Canonical(), h.Dropped})
	if err != nil {
		return err
	}
	return o.Cache.Write(o.file(h), data)
}
