package planner_test

import (
	"fmt"
	"log"

	"github.com/treerun/treerun/collective/plan"
	"github.com/treerun/treerun/collective/planner"
	"github.com/treerun/treerun/topo"
)

// The plan of a job on a DGX-1V for a large AllReduce, and its rate as a part of the links' limit.
func ExampleNew() {
	g, _ := topo.Machine("dgx1v")
	p, err := planner.New(g, planner.Machine{Device: true}, planner.Options{})
	if err != nil {
		log.Fatal(err)
	}
	c, err := p.Choose(plan.AllReduce, -1, 256<<20)
	if err != nil {
		log.Fatal(err)
	}
	bound, err := p.Site.Certify(plan.AllReduce, -1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("chosen by %s: links allow %.1f GB/s, of which the plan reaches %.0f %%\n",
		c.By, bound.Rate, 100*bound.Ratio(p.Prices.FullRate(c.Chosen)))
	// Output:
	// chosen by price, and within 1 % of the least by the fullest link: links allow 85.7 GB/s, of which the plan reaches 100 %
}

// An algorithm that is requested runs the collectives that it has plans for. Others are planned as usual.
func ExamplePlanner_Choose() {
	g, _ := topo.Machine("two-sockets")
	options, err := planner.ParseOptions("kl,link-usage-penalty=0.5")
	if err != nil {
		log.Fatal(err)
	}
	p, err := planner.New(g, planner.Machine{Cores: 8}, options)
	if err != nil {
		log.Fatal(err)
	}
	for _, kind := range []plan.Kind{plan.AllReduce, plan.AllToAll} {
		for _, bytes := range []int64{1 << 10, 1 << 24} {
			c, err := p.Choose(kind, -1, bytes)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("%v of %d bytes: %s\n", kind, bytes, c.Chosen.Name())
		}
	}
	// Output:
	// allreduce of 1024 bytes: kl:all
	// allreduce of 16777216 bytes: kl:all
	// alltoall of 1024 bytes: direct:single
	// alltoall of 16777216 bytes: direct:split
}
