package main

import (
	"fmt"
	"strconv"
)

// row is one line of the table.
type row struct {
	op, typ             string
	np                  int
	bytes, count, iters int
	median, least       float64 // seconds of an iteration on its slowest rank
	checked             bool
	wrong               int64 // elements, over all ranks
}

// header returns the two lines above the rows.
func header(o *options, np int) string {
	mode := "barrier"
	if o.stream {
		mode = "stream"
	}
	return fmt.Sprintf("# treerun  np=%d  type=%s  mode=%s  warmup=%d iters<=%d  (time: median over iterations of the slowest rank)\n",
		np, o.typ, mode, o.warmup, o.iters) +
		fmt.Sprintf("# %-13s %12s %12s %7s %7s %12s %12s %10s %10s %6s", "op", "bytes", "count", "type",
			"iters", "time_us", "min_us", "algbw_GB/s", "busbw_GB/s", "wrong")
}

// algbw is the bytes of the message over the time, in GB/s (1e9 bytes).
func (r *row) algbw() float64 { return float64(r.bytes) / r.median / 1e9 }

// busbw is algbw times the share of the message that one rank's links carry,
// as nccl-tests defines it: a figure to hold against what the hardware does.
func (r *row) busbw() float64 {
	if r.op == "allreduce" {
		return r.algbw() * 2 * float64(r.np-1) / float64(r.np)
	}
	return r.algbw()
}

// String returns the line of the table.
func (r row) String() string {
	wrong := "N/A"
	if r.checked {
		wrong = strconv.FormatInt(r.wrong, 10)
	}
	return fmt.Sprintf("  %-13s %12d %12d %7s %7d %12.2f %12.2f %10.4f %10.4f %6s", r.op, r.bytes, r.count, r.typ,
		r.iters, r.median*1e6, r.least*1e6, r.algbw(), r.busbw(), wrong)
}
