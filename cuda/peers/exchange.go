package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/treerun/treerun/cuda"
	"github.com/treerun/treerun/topo/gpu"
)

// meter measures as one rank.
type meter struct {
	ctx context.Context
	w   World
	dev *cuda.Device

	hellos  []hello
	machine *gpu.Machine
	offers  []offer
	buffers *buffers
	late    error // of closing a link, told at the end
}

// hello is what a rank tells first.
type hello struct {
	UUID    string
	GPU     gpu.GPU      // its own
	Machine *gpu.Machine `json:",omitempty"` // rank 0 only
}

// blob is what ranks send each other: a value, or why there is none.
type blob[T any] struct {
	Error string `json:",omitempty"`
	Value T
}

// maxBlob bounds what a rank reads of another, in bytes.
const maxBlob = 8 << 20

// swap gives every rank the values of all. Where a rank has failed, all get the
// error of the lowest such rank.
func swap[T any](m *meter, mine T, failed error) ([]T, error) {
	b := blob[T]{Value: mine}
	if failed != nil {
		var none T
		b.Error, b.Value = failed.Error(), none
	}
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("measure peer links: %w", err)
	}
	all, err := m.w.AllGather(m.ctx, data)
	if err != nil {
		return nil, fmt.Errorf("measure peer links: %w", err)
	}
	return opened[T](all, m.w.Rank(), failed)
}

// opened reads what all ranks sent.
func opened[T any](all [][]byte, self int, failed error) ([]T, error) {
	values := make([]T, len(all))
	for r, data := range all {
		b, err := decode[T](data)
		switch {
		case err != nil:
			return nil, fmt.Errorf("measure peer links: what rank %d says: %w", r, err)
		case b.Error != "" && r == self:
			return nil, fmt.Errorf("measure peer links: rank %d: %w", r, failed)
		case b.Error != "":
			return nil, fmt.Errorf("measure peer links: rank %d: %.4096s", r, b.Error)
		}
		values[r] = b.Value
	}
	return values, nil
}

func decode[T any](data []byte) (b blob[T], err error) {
	if len(data) > maxBlob {
		return b, fmt.Errorf("%d bytes, at most %d are possible", len(data), maxBlob)
	}
	return b, json.Unmarshal(data, &b)
}

// meet learns who is there, and puts together what is known of the host.
func (m *meter) meet(machine *gpu.Machine) (err error) {
	if machine == nil {
		machine, err = readMachine(m.dev)
	}
	h := hello{UUID: m.dev.UUID()}
	if err == nil {
		h.GPU = alone(m.dev)
		if g := machine.Find(h.UUID); g != nil {
			h.GPU = *g
		}
		if m.w.Rank() == 0 {
			h.Machine = machine
		}
	}
	if m.hellos, err = swap(m, h, err); err != nil {
		return err
	}
	m.machine, err = together(m.hellos)
	if err != nil {
		return fmt.Errorf("measure peer links: %w", err) // all say the same
	}
	return nil
}

// together adds to what rank 0 knows of the host the GPUs of other ranks that it
// does not see, as in another container.
func together(hellos []hello) (*gpu.Machine, error) {
	m := hellos[0].Machine
	if m == nil {
		return nil, errors.New("rank 0 says nothing of the host")
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("what rank 0 says of the host: %w", err)
	}
	for r, h := range hellos {
		if h.UUID == "" || h.GPU.UUID != h.UUID {
			return nil, fmt.Errorf("rank %d has GPU %.80q and tells of %.80q", r, h.UUID, h.GPU.UUID)
		}
		if m.Find(h.UUID) == nil {
			h.GPU.Index = next(m)
			m.GPUs = append(m.GPUs, h.GPU)
			for i := range m.Levels {
				m.Levels[i] = append(m.Levels[i], gpu.LevelUnknown)
			}
			if m.Levels != nil {
				m.Levels = append(m.Levels, make([]gpu.Level, len(m.GPUs)))
			}
			for i := range m.Refused {
				m.Refused[i] = append(m.Refused[i], "")
			}
			if m.Refused != nil {
				m.Refused = append(m.Refused, make([]string, len(m.GPUs)))
			}
		}
	}
	return m, m.Validate()
}

// next returns a number that no GPU has.
func next(m *gpu.Machine) int {
	n := 0
	for _, g := range m.GPUs {
		n = max(n, g.Index+1)
	}
	return n
}

// devices returns the UUID of every rank's GPU.
func (m *meter) devices() []string {
	var list []string
	for _, h := range m.hellos {
		list = append(list, h.UUID)
	}
	return list
}
