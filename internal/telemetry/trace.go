package telemetry

import (
	"context"
	"fmt"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// TraceConfig says where traces go.
type TraceConfig struct {
	Endpoint string // URL of an OTLP/HTTP collector, or of its /v1/traces; "": no traces
	Headers  map[string]string
	Service  string
	Version  string
	Ratio    float64              // of the traces that begin here, from 0 to 1
	IDs      sdktrace.IDGenerator // nil: random ones
}

// Tracing makes spans and sends them to a collector.
type Tracing struct {
	Tracer trace.Tracer // nil when no traces are wanted
	stop   func(context.Context) error
}

// NewTracing returns the tracing that the configuration asks for. Stop flushes
// and ends it.
func NewTracing(ctx context.Context, cfg TraceConfig) (*Tracing, error) {
	const name = "handoff"
	if cfg.Endpoint == "" {
		return &Tracing{stop: func(context.Context) error { return nil }}, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(signal(cfg.Endpoint)), otlptracehttp.WithHeaders(cfg.Headers))
	if err != nil {
		return nil, fmt.Errorf("create trace exporter: %w", err)
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithBatcher(exporter),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.Ratio))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version))),
	}
	if cfg.IDs != nil {
		options = append(options, sdktrace.WithIDGenerator(cfg.IDs))
	}
	provider := sdktrace.NewTracerProvider(options...)
	return &Tracing{Tracer: provider.Tracer(name), stop: provider.Shutdown}, nil
}

// signal returns where a collector takes traces: below its URL, unless that has a
// path already.
func signal(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || u.Path != "" && u.Path != "/" {
		return endpoint
	}
	return u.JoinPath("v1", "traces").String()
}

// Stop sends what is left and ends the tracing.
func (t *Tracing) Stop(ctx context.Context) error { return t.stop(ctx) }
