package devices

import (
	"testing"

	"github.com/treerun/treerun/collective/internal/device"
	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/cuda/peers"
	"github.com/treerun/treerun/internal/strict"
)

// FuzzDeviceMessages: descriptions of devices that other ranks send are checked, and refused where invalid, before any
// use.
func FuzzDeviceMessages(f *testing.F) {
	offer := peers.Offer{Handle: make([]byte, len(cuda.MemHandle{})), Offset: 512, Size: 1 << 20}
	for _, v := range []any{
		hello{Host: 1, Device: "GPU-0", Memory: 1 << 30,
			Probe: peers.Probe{Memory: offer, Seed: 9}},
		[]device.Location{device.Network, device.InDevice, device.InHost, device.InReader},
		offering{Staging: offer, Block: 4096},
	} {
		f.Add(strict.Marshal(v))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var greeting hello
		if strict.Unmarshal(data, &greeting) == nil {
			within(t, &greeting.Probe.Memory, peers.CheckBytes)
			if stagingBytes([]hello{greeting, greeting}) > maxStaging {
				t.Error("too much staging memory")
			}
		}
		var share offering
		if strict.Unmarshal(data, &share) == nil {
			within(t, &share.Staging, 4096)
		}
		var of []device.Location
		if strict.Unmarshal(data, &of) == nil {
			err := checkLocations([][]device.Location{of, {device.InHost, device.Network}})
			for _, p := range of {
				if err == nil && (len(of) != 2 || p < device.InDevice || p > device.Network) {
					t.Errorf("locations %v", of)
				}
			}
		}
	})
}

// within checks that the memory mapped from an offer lies in its allocation.
func within(t *testing.T, m *peers.Offer, n int64) {
	t.Helper()
	if _, err := m.MemHandle(n); err == nil && (m.Offset < 0 || m.Offset+n > m.Size || m.Offset+n < m.Offset) {
		t.Errorf("%d bytes at %d of %d", n, m.Offset, m.Size)
	}
}
