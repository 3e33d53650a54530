package bench

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A short run shows nothing; a long one shows a line that never stays.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w guarded
		p := startProgress(&w)
		p.show("row 1 of 3, allreduce of 8 bytes")
		time.Sleep(quietFor - time.Millisecond)
		synctest.Wait()
		if got := w.take(); got != "" {
			t.Errorf("shown too early: %q", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.take(); !strings.HasSuffix(got, wipe+"treerun: bench: row 1 of 3, allreduce of 8 bytes, 3 s\r") {
			t.Errorf("shown: %q", got)
		}
		p.hide()
		p.hide()
		if got := w.take(); got != wipe {
			t.Errorf("hidden with %q", got)
		}
		p.show("row 2 of 3, barrier")
		time.Sleep(time.Second)
		synctest.Wait()
		if got := w.take(); !strings.Contains(got, "row 2 of 3, barrier, 4 s") {
			t.Errorf("shown: %q", got)
		}
		p.stop()
		p.stop()
		if got := w.take(); got != wipe {
			t.Errorf("stopped with %q", got)
		}
		time.Sleep(time.Minute)
		if got := w.take(); got != "" {
			t.Errorf("shown after the end: %q", got)
		}
	})
	var none *progress // stderr is no terminal
	none.show("something")
	none.hide()
	none.stop()
}

// guarded is a Writer for two goroutines.
type guarded struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (g *guarded) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

func (g *guarded) take() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.b.Reset()
	return g.b.String()
}
