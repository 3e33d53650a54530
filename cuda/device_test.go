//go:build cgo && linux

package cuda

import (
	"errors"
	"regexp"
	"testing"
)

func TestDevices(t *testing.T) {
	list := gpus(t, 1)
	uuid := regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	pci := regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$`)
	all, err := Devices()
	must(t, err)
	seen := map[string]bool{}
	for i, d := range all {
		if d.Index() != i || !uuid.MatchString(d.UUID()) || !pci.MatchString(d.PCI()) || d.Name() == "" || seen[d.UUID()] ||
			seen[d.PCI()] {
			t.Errorf("device %d: index %d, UUID %q, PCI %q, name %q", i, d.Index(), d.UUID(), d.PCI(), d.Name())
		}
		seen[d.UUID()], seen[d.PCI()] = true, true
		if d.Multiprocessors() < 1 || d.TotalMemory() < 1<<20 {
			t.Errorf("%s: %d multiprocessors, %d bytes", d, d.Multiprocessors(), d.TotalMemory())
		}
		if again, err := DeviceByUUID(d.UUID()); again != d || err != nil {
			t.Errorf("DeviceByUUID(%q) = %v, %v", d.UUID(), again, err)
		}
	}
	if onFake() && len(all) != 8 {
		t.Errorf("%d devices, a DGX-1V has 8", len(all))
	}
	all[0] = nil // the caller's own slice
	if again, err := Devices(); err != nil || again[0] != list[0] {
		t.Errorf("Devices changed: %v, %v", again[0], err)
	}
	_, err = DeviceByUUID("GPU-none")
	wantError(t, err, nil, "GPU-none", list[0].UUID(), "CUDA_VISIBLE_DEVICES")
	version, err := DriverVersion()
	if err != nil || !regexp.MustCompile(`^1[1-9]\.\d+$`).MatchString(version) {
		t.Errorf("DriverVersion = %q, %v", version, err)
	}
}

// TestPeers: in a DGX-1V every GPU has NVLink to four others and, as the fake
// host has it, no access to the rest.
func TestPeers(t *testing.T) {
	needFake(t)
	list := gpus(t, 8)
	for _, d := range list {
		n := 0
		for _, p := range list {
			can, err := d.CanAccess(p)
			must(t, err)
			back, err := p.CanAccess(d)
			must(t, err)
			if can != back || d == p && !can {
				t.Errorf("%s to %s: %t, back %t", d, p, can, back)
			}
			if can && d != p {
				n++
				must(t, d.EnablePeer(p))
				must(t, d.EnablePeer(p)) // again
			} else if !can {
				var e *Error
				if err := d.EnablePeer(p); !errors.As(err, &e) || e.Name != "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" ||
					e.Device != d.Index() {
					t.Errorf("EnablePeer without access: %v", err)
				} else {
					wantError(t, err, nil, "cuCtxEnablePeerAccess", p.UUID(), "nvidia-smi")
				}
			}
		}
		if n < 4 || n > 7 {
			t.Errorf("%s reaches %d others, want 4 or more", d, n)
		}
		must(t, d.EnablePeer(d))
	}
}

// TestDeviceClose: a device whose memory is in use is not closed; closed, it
// can be used again.
func TestDeviceClose(t *testing.T) {
	d := gpus(t, 1)[0]
	for range 2 {
		s, err := Alloc[byte](d, 100)
		must(t, err)
		wantError(t, d.Close(), nil, d.UUID(), "1 ")
		must(t, s.Free())
		contexts := Stats().Contexts
		must(t, d.Close())
		must(t, d.Close())
		if now := Stats().Contexts; now != contexts-1 {
			t.Errorf("%d contexts, %d before Close", now, contexts)
		}
	}
	free, err := d.FreeMemory()
	must(t, err)
	if free <= 0 || free > d.TotalMemory() {
		t.Errorf("%d of %d bytes are free", free, d.TotalMemory())
	}
}
