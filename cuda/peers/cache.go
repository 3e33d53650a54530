package peers

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/treerun/treerun/internal/strictjson"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/gpu"
	"github.com/treerun/treerun/topo/probe"
)

// method counts the changes to how links are measured, and to the form that is kept.
const method = 2

// Limits of what was kept.
const (
	maxKept    = 16 << 20 // bytes
	maxDropped = 1 << 12  // links
	maxFault   = 4 << 10  // bytes
)

// cacheFile is what is kept of a measurement.
type cacheFile struct {
	Version int         `json:"version"`
	Graph   *topo.Graph `json:"graph"`
	Dropped []gpu.Drop  `json:"dropped,omitempty"`
}

// parseCache reads what was kept for so many ranks.
func parseCache(data []byte, ranks int) (*topo.Graph, []gpu.Drop, error) {
	var f cacheFile
	if err := strictjson.Unmarshal(data, &f, strictjson.Limits{Bytes: maxKept, Elements: topo.MaxLinks}); err != nil {
		return nil, nil, err
	}
	if f.Version != method {
		return nil, nil, fmt.Errorf("version %d, want %d", f.Version, method)
	}
	return f.Graph, f.Dropped, checkGraph(f.Graph, f.Dropped, ranks)
}

// checkGraph looks at what others say of the links of a host with so many ranks.
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

// cache keeps measurements of a host for later jobs; only its first rank uses it.
type cache struct {
	cache  probe.Cache
	file   string // "": nothing is kept
	anew   bool
	forget bool
	ranks  int
}

func newCache(o Options, h *HostResult) *cache {
	k := &cache{anew: o.Anew || o.Forget, forget: o.Forget, ranks: len(h.Ranks)}
	if o.Cache != nil {
		k.cache = *o.Cache
	} else if c, err := probe.UserCache(); err == nil {
		k.cache = c
	} else {
		return k
	}
	k.file = k.cache.PathOf(fmt.Sprintf("gpus %d\n%s\n%s", method, h.Machine.Driver, strings.Join(h.Devices, "\n")),
		k.ranks)
	return k
}

// load returns what was kept, nil for nothing that can be used.
func (k *cache) load() []byte {
	if k.file == "" || k.anew {
		return nil
	}
	data, err := k.cache.Read(k.file)
	if err == nil && data != nil {
		_, _, err = parseCache(data, k.ranks)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "treerun: %s: %v: GPUs are measured again\n", k.file, err)
		return nil
	}
	return data
}

// store keeps h.
func (k *cache) store(h *HostResult) error {
	if k.file == "" || k.forget {
		return nil
	}
	data, err := json.Marshal(cacheFile{method, h.Graph.Canonical(), h.Dropped})
	if err != nil {
		return err
	}
	return k.cache.Write(k.file, data)
}
