package setup

import (
	"context"
	"strings"
	"sync"
	"testing"
)

// onHosts is a World whose ranks are on these hosts.
type onHosts struct {
	World
	hosts []int
}

func (w onHosts) HostOf(r int) int { return w.hosts[r] }

// TestFailureOfOneHost: where the ranks of one host cannot share memory, New fails on the ranks of all hosts.
func TestFailureOfOneHost(t *testing.T) {
	hosts := []int{0, 0, 1, 1}
	var ranks sync.WaitGroup
	for r, w := range InProcess(len(hosts)) {
		ranks.Go(func() {
			w = onHosts{w, hosts}
			gather := gatherAmong(neighbors(hosts, r), w.AllGather)
			given := []byte(nil)
			if r == 3 {
				given = []byte("no report")
			}
			own, err := gather(context.Background(), given)
			switch {
			case hosts[r] == 1 && (err != nil || len(own) != 2): // its members see the blobs of all
				t.Errorf("rank %d: %d blobs, %v", r, len(own), err)
			case hosts[r] == 0 && (err == nil || !strings.Contains(err.Error(), "rank 3: ")):
				t.Errorf("rank %d: %v, want the failure of rank 3", r, err)
			}
		})
	}
	ranks.Wait()
}
