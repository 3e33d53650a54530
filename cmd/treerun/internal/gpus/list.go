package gpus

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/treerun/treerun/internal/numbers"
	"github.com/treerun/treerun/topo/gpu"
)

// parseList reads what --gpus takes: numbers, ranges of them, beginnings of UUIDs
// and PCI addresses, between commas. The words that it returns have no ranges.
func parseList(list string) (words []string, err error) {
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		some := []string{part}
		if !strings.HasPrefix(strings.ToUpper(part), "GPU-") && !strings.Contains(part, ":") {
			if some, err = numbers.ExpandNames("["+part+"]", gpu.MaxGPUs); err != nil {
				return nil, fmt.Errorf("%q is no GPU: want numbers as nvidia-smi has them, ranges, UUIDs or PCI addresses, as "+
					"in 0-3,GPU-5f1c; treerun does not use MIG instances", part)
			}
		}
		if words = append(words, some...); len(words) > gpu.MaxGPUs {
			return nil, fmt.Errorf("more than %d GPUs", gpu.MaxGPUs)
		}
	}
	return words, nil
}

// pick returns the GPUs of a list, in its order.
func pick(list []string, m *gpu.Machine) ([]gpu.GPU, error) {
	var picked []gpu.GPU
	for _, w := range list {
		g, err := find(w, m)
		if err != nil {
			return nil, err
		}
		if g.MIG {
			return nil, fmt.Errorf("GPU %d is cut into MIG instances, which treerun does not use (hint: nvidia-smi -i %d -mig "+
				"0)", g.Index, g.Index)
		}
		if slices.ContainsFunc(picked, func(p gpu.GPU) bool { return p.UUID == g.UUID }) {
			return nil, fmt.Errorf("GPU %d (%s) stands twice (--ranks-per-gpu lets ranks share one)", g.Index, g.UUID)
		}
		picked = append(picked, *g)
	}
	return picked, nil
}

func find(word string, m *gpu.Machine) (*gpu.GPU, error) {
	var found *gpu.GPU
	for i := range m.GPUs {
		g := &m.GPUs[i]
		if word != strconv.Itoa(g.Index) && gpu.NormalPCI(word) != g.PCI &&
			!strings.HasPrefix(strings.ToLower(g.UUID), strings.ToLower(word)) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s is the beginning of several UUIDs", word)
		}
		found = g
	}
	if found == nil {
		return nil, fmt.Errorf("this host has no GPU %s: it has %s (hint: nvidia-smi -L lists them)", word,
			numbers.Count(len(m.GPUs), "GPU"))
	}
	return found, nil
}

// pick returns the GPUs that CUDA_VISIBLE_DEVICES shows. As CUDA does, it reads
// numbers and beginnings of UUIDs up to the first that names none. Numbers count
// GPUs in CUDA's own order, the fastest first, which only CUDA_DEVICE_ORDER or GPUs
// that are all alike make that of PCI.
func (v variable) pick(all []gpu.GPU) ([]gpu.GPU, error) {
	byPCI := slices.Clone(all)
	slices.SortFunc(byPCI, func(a, b gpu.GPU) int { return cmp.Compare(a.PCI, b.PCI) })
	alike := !slices.ContainsFunc(all, func(g gpu.GPU) bool { return g.Name != all[0].Name })
	var picked []gpu.GPU
	for part := range strings.SplitSeq(v.value, ",") {
		part = strings.TrimSpace(part)
		if strings.HasPrefix(part, "MIG-") {
			return nil, errors.New("treerun does not use MIG instances (--gpu-bind none gives ranks no GPU)")
		}
		i, err := strconv.Atoi(part)
		if err == nil && !alike && !v.pciOrder {
			return nil, errors.New("the GPUs differ, so only CUDA knows which has this number: give UUIDs, set " +
				"CUDA_DEVICE_ORDER=PCI_BUS_ID, or use --gpus")
		}
		if err != nil {
			i = slices.IndexFunc(byPCI, func(g gpu.GPU) bool { return part != "" && strings.HasPrefix(g.UUID, part) })
		}
		if i < 0 || i >= len(byPCI) {
			break // as CUDA does
		}
		if slices.ContainsFunc(picked, func(g gpu.GPU) bool { return g.UUID == byPCI[i].UUID }) {
			return nil, fmt.Errorf("%s stands twice: CUDA then shows no GPU at all", part)
		}
		picked = append(picked, byPCI[i])
	}
	return picked, nil
}
