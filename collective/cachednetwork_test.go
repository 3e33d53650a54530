package collective

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treerun/treerun/collective/internal/setup"
	"github.com/treerun/treerun/internal/testutil"
	"github.com/treerun/treerun/topo"
)

// cachedJob runs a job on hosts and returns the origin of its graph, which must be the same on all ranks, and the
// graph.
func cachedJob(t *testing.T, dir string, hosts []int, settings map[string]string) (*Between, *topo.Graph, error) {
	t.Helper()
	var mu sync.Mutex
	var known *Between
	var graph *topo.Graph
	settings["start-timeout"] = "30s"
	errs := runHosts(t, hosts, settings, func(w *testutil.Hosted, c *Comm) error {
		mu.Lock()
		defer mu.Unlock()
		if graph != nil && graph.Digest() != c.Graph().Digest() {
			return errors.New("different graphs")
		}
		if graph = c.Graph(); c.Rank() == 0 || known == nil {
			known = c.Between() // rank 0 has the most information
		}
		return nil
	}, WithTopoCache(dir))
	return known, graph, errors.Join(errs...)
}

// age makes a job's kept measurement look older.
func age(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	rewrite(t, dir, `"measured_at":(\d+)`, func(old string) string {
		seconds, err := strconv.ParseInt(old, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf(`"measured_at":%d`, seconds-int64(by.Seconds()))
	})
}

// rewrite changes the kept file: the first match of a pattern with one group.
func rewrite(t *testing.T, dir, pattern string, change func(group string) string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-hosts*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("kept %v, %v; want one network", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(pattern).FindSubmatch(data)
	if m == nil {
		t.Fatalf("%s has no %s", files[0], pattern)
	}
	data = bytes.Replace(data, m[0], []byte(change(string(m[1]))), 1)
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A job takes the kept measurement of an earlier one, until it is too old, or a job needs a longer one; the order of
// its hosts does not matter.
func TestKeptNetwork(t *testing.T) {
	dir := t.TempDir()
	hosts := []int{0, 0, 1, 2} // two of several ranks would share a file here
	first, graph, err := cachedJob(t, dir, hosts, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if n := first.Network; n.Probe != "quick" || len(n.Hosts) != 3 || n.Hosts[1] != "host1" || n.At == 0 {
		t.Errorf("measured %+v", n)
	}
	age(t, dir, 2*24*time.Hour)
	second, again, err := cachedJob(t, dir, hosts, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest() != graph.Digest() || second.Network.At != first.Network.At-2*86400 {
		t.Errorf("measured again:\n%v\nwas\n%v", again, graph)
	}
	third, _, err := cachedJob(t, dir, hosts, map[string]string{"no-topo-cache": setup.Refresh})
	if err != nil {
		t.Fatal(err)
	}
	if third.Network.At < first.Network.At {
		t.Error("not measured though told to")
	}
	if taken, _, err := cachedJob(t, dir, hosts, map[string]string{}); err != nil || taken.Network.At != third.Network.At {
		t.Errorf("what was measured anew was not kept: %v", err)
	}
	age(t, dir, 30*24*time.Hour)
	old, _, err := cachedJob(t, dir, hosts, map[string]string{"probe": "off"})
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(time.Unix(old.Network.At, 0)) < 29*24*time.Hour {
		t.Error("off has measured")
	}
	fresh, _, err := cachedJob(t, dir, hosts, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(time.Unix(fresh.Network.At, 0)) > time.Hour {
		t.Error("a month is not too old")
	}
}

// If the description of a host differs from the one at the time of the measurement, the next job measures again and
// reports the reason; a job that may not measure does not use the kept measurement either.
func TestKeptNetworkOfChangedHosts(t *testing.T) {
	dir := t.TempDir()
	hosts := []int{0, 1, 2}
	first, _, err := cachedJob(t, dir, hosts, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if first.Unused != "" {
		t.Errorf("there was nothing: %s", first.Unused)
	}
	age(t, dir, time.Hour)
	rewrite(t, dir, `"network namespace":"([^"]*)"`,
		func(is string) string { return `"network namespace":"not ` + is + `"` })
	const why = "no longer holds: host host"
	off, _, err := cachedJob(t, dir, hosts, map[string]string{"probe": "off"})
	if err != nil {
		t.Fatal(err)
	}
	if off.Network.At != 0 || !strings.Contains(off.Unused, why) || !strings.Contains(off.Text(0), off.Unused+"\n") {
		t.Errorf("not measured:\n%s", off.Text(0))
	}
	second, _, err := cachedJob(t, dir, hosts, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if second.Network.At < first.Network.At || !strings.Contains(second.Unused, why) ||
		!strings.Contains(second.Unused, `network namespace was "not `) {
		t.Errorf("measured:\n%s", second.Text(0))
	}
	age(t, dir, time.Hour)
	third, _, err := cachedJob(t, dir, hosts, map[string]string{})
	if err != nil {
		t.Fatal(err)
	}
	if third.Network.At != second.Network.At-3600 || third.Unused != "" {
		t.Errorf("what was measured then does not serve:\n%s", third.Text(0))
	}
}

// Without a kept measurement, off declares all hosts equal; a broken file is replaced by a new measurement; a word that
// --probe does not know is an error.
func TestProbeOff(t *testing.T) {
	known, graph, err := cachedJob(t, t.TempDir(), []int{0, 1, 2}, map[string]string{"probe": "off"})
	if err != nil {
		t.Fatal(err)
	}
	if known.Network.At != 0 || !known.Network.Graph.IsEven() || graph.Links[0].Source != topo.Declared {
		t.Errorf("declared\n%v", graph)
	}
	dir := t.TempDir()
	if _, _, err := cachedJob(t, dir, []int{0, 1}, map[string]string{}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*-hosts2.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.WriteFile(files[0], []byte(`{"version":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	if known, _, err = cachedJob(t, dir, []int{0, 1}, map[string]string{}); err != nil || known.Network.Probe != "quick" {
		t.Errorf("over a broken file: %v, %v", known, err)
	}
	if _, _, err = cachedJob(t, dir, []int{0, 1}, map[string]string{"probe": "fast"}); !errors.Is(err, ErrArgument) ||
		!strings.Contains(err.Error(), "quick, full or off") {
		t.Errorf("--probe fast: %v", err)
	}
}
