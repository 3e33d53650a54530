package comm

import (
	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/internal/device"
)

// devicePlanning is what makes a planner one for devices.
type devicePlanning struct {
	stagingBytes int64 // of device memory, per rank
}

// DeviceKinds are the collectives that run on devices. Their plans are all made
// when the first of them is called, so that rank 0 decides on all of them.
var DeviceKinds = []plan.Kind{plan.AllReduce, plan.Reduce, plan.Broadcast, plan.Barrier, plan.AllGather,
	plan.ReduceScatter}

// devicePlans returns the plans of all choices, in the same order on all ranks, and lets
// each know where it stands.
func (p *plans) devicePlans() ([]device.Placed, error) {
	var all []device.Placed
	for _, kind := range DeviceKinds {
		list, err := p.AllServed(kind)
		if err != nil {
			return nil, err
		}
		for _, s := range list {
			if p.rank == 0 {
				if err := p.Verify(s); err != nil {
					return nil, err
				}
			}
			s.Attached = len(all)
			all = append(all, device.Placed{Plan: s.Plan, Lanes: s.Lanes})
		}
	}
	return all, nil
}
