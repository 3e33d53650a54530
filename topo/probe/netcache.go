package probe

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/treerun/treerun/topo/network"
)

// Identity tells this host, as others reach it at these addresses, from every
// other host, and from itself before a reboot.
func Identity(addrs []netip.Addr) string {
	name, boot := thisHost()
	sorted := slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%s\n%v", method, name, boot, sorted))
	return hex.EncodeToString(sum[:16])
}

// staleNetwork is how old a network may be: others come and go on it.
const staleNetwork = 7 * 24 * time.Hour

// NetworkPath returns the file of the network between hosts of these identities,
// in whatever order; "" when two of them are the same.
func (c Cache) NetworkPath(identities []string) string {
	sorted := slices.Sorted(slices.Values(identities))
	h := sha256.New()
	for i, id := range sorted {
		if i > 0 && id == sorted[i-1] {
			return ""
		}
		_, _ = io.WriteString(h, id+"\n") // a hash takes everything
	}
	return filepath.Join(c.Dir, fmt.Sprintf("%x-hosts%d.json", h.Sum(nil)[:8], len(identities)))
}

// StoreNetwork keeps n, whose hosts have these identities, in file.
func (c Cache) StoreNetwork(file string, identities []string, n *network.Network) error {
	data, err := n.Renumber(byIdentity(identities)).AppendJSON(nil)
	if err != nil {
		return err
	}
	return store(file, data)
}

// LoadNetwork returns the network in file, with its hosts in the order of these
// identities. It returns nil where there is none, it was measured with less
// effort than asked for, or is too old; for network.Off any will do.
func (c Cache) LoadNetwork(file string, identities []string, e network.Effort, now time.Time) (*network.Network, error) {
	data, err := load(file, network.MaxBytes)
	if data == nil || err != nil {
		return nil, err
	}
	n, err := network.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("probe: %s: %w", file, err)
	}
	if len(n.Hosts) != len(identities) {
		return nil, fmt.Errorf("probe: %s is for %d hosts, not %d", file, len(n.Hosts), len(identities))
	}
	age := now.Sub(time.Unix(n.At, 0))
	if e != network.Off && (age > staleNetwork || age < -time.Hour || e == network.Full && n.Probe != network.Full.String()) {
		return nil, nil
	}
	order := byIdentity(identities)
	back := make([]int, len(order))
	for i, h := range order {
		back[h] = i
	}
	return n.Renumber(back), nil
}

// byIdentity returns the hosts in the order of their identities.
func byIdentity(identities []string) []int {
	order := make([]int, len(identities))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if identities[a] < identities[b] {
			return -1
		}
		return 1
	})
	return order
}
