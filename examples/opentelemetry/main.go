// Opentelemetry makes each step of a program a span of OpenTelemetry, and each call on a communicator a span within it.
// An observer (collective.WithObserver) makes the spans of calls.
//
//	cd examples/opentelemetry && treerun -np 4 . --spans spans
//
// Each rank writes its spans as JSON to spans/rank-N.json. A program that sends them to a collector uses another
// exporter of OpenTelemetry. It is a module of its own, so that other users do not download OpenTelemetry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/treerun/treerun/collective"
	"github.com/treerun/treerun/rank"
)

func main() {
	steps := flag.Int("steps", 10, "number of steps")
	folder := flag.String("spans", "spans", "folder for the spans")
	flag.Parse()
	if err := run(context.Background(), *steps, *folder); err != nil {
		log.Fatal(err)
	}
}

// run runs a rank that adds up an array in each step.
func run(ctx context.Context, steps int, folder string) (err error) {
	w, err := rank.Init(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	provider, err := newProvider(w, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Shutdown(ctx)) }()
	s := &spans{tracer: provider.Tracer("github.com/treerun/treerun"), parent: ctx}
	c, err := collective.New(ctx, w, collective.WithObserver(s.observe))
	if err != nil {
		return err
	}
	sums := make([]float64, 1<<16)
	for range steps {
		within, span := s.tracer.Start(ctx, "step")
		s.parent = within
		for i := range sums {
			sums[i] = 1
		}
		err = collective.AllReduce(ctx, c, sums, sums, collective.Sum)
		span.End()
		if err != nil {
			return err
		}
	}
	all, err := collective.AllReduceValue(ctx, c, s.calls, collective.Sum)
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		fmt.Printf("sum=%v calls=%d\n", sums[0]/float64(c.Size()), all/c.Size())
	}
	return nil
}

// newProvider returns a provider of tracers that writes the spans of this rank to a file.
func newProvider(w *rank.World, folder string) (*sdk.TracerProvider, error) {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	file, err := os.Create(filepath.Join(folder, fmt.Sprintf("rank-%d.json", w.Rank())))
	if err != nil {
		return nil, err
	}
	exporter, err := stdouttrace.New(stdouttrace.WithWriter(file))
	if err != nil {
		return nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", "opentelemetry"),
		attribute.String("service.instance.id", fmt.Sprintf("%s/%d", w.JobID(), w.Rank())),
		attribute.String("host.name", w.Host()))
	return sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about)), nil
}

// spans makes spans of calls.
type spans struct {
	tracer trace.Tracer
	parent context.Context // has the span of the step
	calls  int
}

// observe makes a span of a call, which has just ended. It runs in the goroutine of the call, like the step.
func (s *spans) observe(e collective.Event) {
	s.calls++
	end := time.Now()
	_, span := s.tracer.Start(s.parent, e.Call, trace.WithTimestamp(end.Add(-e.Took)), trace.WithAttributes(
		attribute.String("communicator", e.Comm), attribute.Int64("number", int64(e.Number)),
		attribute.Int64("bytes", e.Bytes), attribute.String("algorithm", e.Algorithm),
		attribute.Int64("waited_us", e.Waited.Microseconds())))
	if e.Err != nil {
		span.SetStatus(codes.Error, e.Err.Error())
	}
	span.End(trace.WithTimestamp(end))
}
