package probe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/internal/strict"
	"github.com/treerun/treerun/topo"
	"github.com/treerun/treerun/topo/network"
)

// Member is a host of a network that is kept.
type Member struct {
	Name     string            // for people
	Identity string            // the file is found by all of them
	Facts    map[string]string // the facts on which its rates depend, by name: they must be unchanged
}

// Identity distinguishes this host, as others reach it at these addresses, from others. Two hosts may still have the
// same one, at different times: their Facts differ.
func Identity(addrs []netip.Addr) string {
	name, _ := thisHost()
	sorted := slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)
	sum := sha256.Sum256(fmt.Appendf(nil, "%d\n%s\n%v", method, name, sorted))
	return hex.EncodeToString(sum[:16])
}

// staleNetwork is the age up to which a network serves: other users of the network come and go.
const staleNetwork = 7 * 24 * time.Hour

// NetworkPath returns the file of the network between these hosts, in whatever
// order; "" when two of them are the same.
func (c Cache) NetworkPath(members []Member) string {
	h := sha256.New()
	last := fmt.Sprintln(networkVersion)
	_, _ = io.WriteString(h, last) // a hash never fails
	for i, m := range byIdentity(members) {
		id := members[m].Identity
		if i > 0 && id == last {
			return ""
		}
		last = id
		_, _ = io.WriteString(h, id+"\n")
	}
	return filepath.Join(c.Dir, fmt.Sprintf("%x-hosts%d.json", h.Sum(nil)[:8], len(members)))
}

// cachedNetwork is the form of the file. Its hosts stand in the order of their
// identities.
type cachedNetwork struct {
	Facts   []map[string]string `json:"facts"` // by host, when it was measured
	Network *network.Network    `json:"network"`
}

// networkVersion counts the changes of that form, and of how networks are measured and inferred: a file of an earlier
// version is not found.
const networkVersion = 6

// StoreNetwork keeps n, whose hosts these are, in file.
func (c Cache) StoreNetwork(file string, members []Member, n *network.Network) error {
	order := byIdentity(members)
	k := cachedNetwork{Network: n.Renumber(order)}
	for _, h := range order {
		k.Facts = append(k.Facts, maps.Collect(maps.All(members[h].Facts))) // never nil, which JSON writes as null
	}
	data, err := json.Marshal(k)
	if err != nil {
		return fmt.Errorf("probe: storing the network: %w", err)
	}
	return c.Write(file, data)
}

// LoadNetwork returns the network in file, with its hosts in the order of members. It returns nil where there is none,
// and nil and the reason for one that does not serve: one that was measured with less effort than wanted, is too old,
// or of which a host has changed since. For network.Off any age and effort will do.
func (c Cache) LoadNetwork(file string, members []Member, e network.Effort, now time.Time) (n *network.Network,
	why string, err error) {
	k, err := c.readNetwork(file, len(members))
	if k == nil || err != nil {
		return nil, "", err
	}
	n = k.Network
	order := byIdentity(members)
	age := now.Sub(time.Unix(n.At, 0))
	switch {
	case e == network.Off:
	case age < -time.Hour:
		why = "is of a time yet to come"
	case age > staleNetwork:
		why = "is too old"
	case e == network.Full && n.Probe != string(network.Full):
		why = "is not as thorough as requested"
	}
	back := make([]int, len(order))
	for i, h := range order {
		back[h] = i
	}
	for h, m := range members {
		if change := changed(k.Facts[back[h]], m.Facts); change != "" {
			why = fmt.Sprintf("no longer holds: host %s: %s", m.Name, change)
			break
		}
	}
	if why != "" {
		return nil, fmt.Sprintf("the network %s %s", n.Origin(now.Unix()), why), nil
	}
	return n.Renumber(back), "", nil
}

// readNetwork reads a file of the given number of hosts, nil where there is none.
func (c Cache) readNetwork(file string, hosts int) (*cachedNetwork, error) {
	data, err := c.Read(file)
	if data == nil || err != nil {
		return nil, err
	}
	k := new(cachedNetwork)
	err = strict.UnmarshalJSON(data, k, strict.JSONLimits{Bytes: maxCached, Elements: topo.MaxLinks})
	switch {
	case err != nil:
	case len(k.Network.Hosts) != hosts || len(k.Facts) != hosts:
		err = fmt.Errorf("it is for %d hosts, with facts of %d, not for %d", len(k.Network.Hosts), len(k.Facts), hosts)
	default:
		err = k.Network.Validate()
	}
	if err != nil {
		return nil, fmt.Errorf("probe: %s: %w", file, err)
	}
	return k, nil
}

// changed describes the difference between the facts then and now, "" where there is none.
func changed(was, is map[string]string) string {
	if maps.Equal(was, is) {
		return ""
	}
	if was[bootFact] != is[bootFact] {
		return "it was restarted"
	}
	all := maps.Clone(was)
	maps.Copy(all, is)
	var list []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if was[name] != is[name] {
			list = append(list, fmt.Sprintf("%s was %q, is %q", name, was[name], is[name]))
		}
	}
	return strings.Join(list[:min(len(list), 3)], "; ")
}

// bootFact is the name of the fact that changes when a host reboots.
const bootFact = "boot"

// byIdentity returns the hosts in the order of their identities.
func byIdentity(members []Member) []int {
	return numbers.Order(len(members), func(a, b int) int { return cmp.Compare(members[a].Identity, members[b].Identity) })
}
