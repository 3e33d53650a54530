package setup

import (
	"strings"
	"testing"

	"github.com/treerun/treerun/topo"
)

// A graph whose ranks are on other hosts than the job's is used, and reported.
func TestGraphOfOtherHosts(t *testing.T) {
	given := topo.UniformGraph(4)
	hosts := []int{0, 0, 0, 0}
	if text := otherHosts(given, hosts); text != "" {
		t.Errorf("the same hosts: %s", text)
	}
	given.Hosts = []int{3, 3, 5, 5}
	if text := otherHosts(given, hosts); !strings.Contains(text, "on 2 hosts, those of the job on 1") {
		t.Errorf("other hosts: %q", text)
	}
}
