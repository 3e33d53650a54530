package rank

// countHosts derives, from the ranks' host identities, what the launcher did
// not say about which rank is where.
func (w *World) countHosts() {
	cfg := w.cfg
	if cfg.Hosts != nil {
		return
	}
	ids := make([]string, cfg.Size)
	for r := range ids {
		ids[r] = w.members.of(r).Host
	}
	var before, all int
	cfg.Hosts, before, all = numberHosts(ids, cfg.Rank)
	if cfg.LocalSize == 0 {
		cfg.LocalSize = all
	}
	if cfg.LocalRank < 0 || cfg.LocalRank >= cfg.LocalSize {
		cfg.LocalRank = before
	}
}

// numberHosts numbers the hosts of all ranks in order of appearance, and counts
// the ranks on the host of self: those before it, and all.
func numberHosts(ids []string, self int) (hosts []int, before, all int) {
	number := map[string]int{}
	hosts = make([]int, len(ids))
	for r, id := range ids {
		if _, known := number[id]; !known {
			number[id] = len(number)
		}
		hosts[r] = number[id]
		if id == ids[self] {
			if r < self {
				before++
			}
			all++
		}
	}
	return hosts, before, all
}
