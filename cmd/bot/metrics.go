package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"github.com/org/ralph-action/internal/httpd"
	"github.com/org/ralph-action/internal/machine"
	"github.com/org/ralph-action/internal/reconcile"
	"github.com/org/ralph-action/internal/run"
	"github.com/org/ralph-action/internal/store"
)

// metrics are the figures of a server. No label has a value that a person or an agent
// chose: a stranger could make series without end, and names of private repositories
// would go where the figures go.
type metrics struct {
	registry *prometheus.Registry
	standing standingMetrics

	ended, webhooks          *prometheus.CounterVec
	iterations, tasks, cost  prometheus.Counter
	runTime, agentTime       prometheus.Histogram
	jobs                     *prometheus.HistogramVec
	runs                     *prometheus.GaugeVec
	waiting, age, size, free prometheus.Gauge
	work, most, line         prometheus.Gauge
}

// The kinds of jobs, as metrics name them.
const (
	jobDelivery = "delivery"
	jobTick     = "tick"
)

// standingMetrics are read whenever they are asked for.
type standingMetrics struct {
	store   *store.Store
	dataDir string
	// places is how many agents and checks may be at work.
	places int
	now    func() time.Time
}

// newMetrics counts what happens, and reads how things are whenever it is asked.
func newMetrics(standing standingMetrics) *metrics {
	m := &metrics{registry: prometheus.NewRegistry(), standing: standing}
	add := func(c prometheus.Collector) { m.registry.MustRegister(c) }
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		add(c)
		return c
	}
	now := &gauges{metrics: m}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		now.all = append(now.all, g)
		return g
	}
	times := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		add(h)
		return h
	}
	m.ended = counter("ralph_runs_ended_total", "Runs that ended, by the reason.", "end")
	for _, end := range run.EndReasons() {
		m.ended.WithLabelValues(string(end))
	}
	m.webhooks = counter("ralph_webhooks_total", "Requests to the webhook endpoint, by the status of the answer.", "code")
	for _, code := range []string{"202", "400", "401", "413", "415", "503"} { // see handlers.New
		m.webhooks.WithLabelValues(code)
	}
	m.iterations = counter("ralph_iterations_total", "Agent calls that ended.").WithLabelValues()
	m.tasks = counter("ralph_tasks_done_total", "Tasks that were committed.").WithLabelValues()
	m.cost = counter("ralph_cost_dollars_total", "What agent calls cost, in dollars.").WithLabelValues()
	runTime := times("ralph_run_duration_seconds", "How long runs took.",
		[]float64{60, 300, 900, 1800, 3600, 7200, 14400, 28800})
	agentTime := times("ralph_agent_call_duration_seconds", "How long agent calls took.",
		[]float64{10, 30, 60, 180, 300, 600, 1200, 1800, 3600})
	m.runTime, _ = runTime.WithLabelValues().(prometheus.Histogram)
	m.agentTime, _ = agentTime.WithLabelValues().(prometheus.Histogram)
	m.jobs = times("ralph_job_duration_seconds", "How long jobs of the queue took, by kind.",
		[]float64{.01, .05, .25, 1, 5, 15, 60, 300}, "kind")
	for _, kind := range []string{jobDelivery, jobTick} {
		m.jobs.WithLabelValues(kind)
	}
	m.runs = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "ralph_runs", Help: "Runs that have not ended, by phase."},
		[]string{"phase"})
	m.waiting = gauge("ralph_deliveries_waiting", "Webhooks that nobody has dealt with yet.")
	m.age = gauge("ralph_delivery_oldest_age_seconds", "Age of the oldest webhook that nobody has dealt with.")
	m.work = gauge("ralph_places_taken", "Agents and checks that are at work.")
	m.most = gauge("ralph_places", "Agents and checks that may be at work at once, 0 for any number.")
	m.line = gauge("ralph_runs_in_line", "Runs that wait for a place, or for what the server lacks.")
	m.size = gauge("ralph_database_bytes", "Size of the database.")
	m.free = gauge("ralph_disk_free_bytes", "What is free on the disk of the data directory.")
	now.all = append(now.all, m.runs)
	add(now)
	add(collectors.NewGoCollector())
	add(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// handle counts an event of a run.
func (m *metrics) handle(ev run.Event) {
	switch ev.Kind { //nolint:exhaustive // the others are not counted
	case run.EventAgentFinished:
		m.iterations.Inc()
		m.cost.Add(max(ev.Usage.CostUSD, 0))
		m.agentTime.Observe(ev.Duration.Seconds())
	case run.EventTaskDone:
		m.tasks.Inc()
	case run.EventRunEnded:
		m.ended.WithLabelValues(string(ev.End)).Inc()
		m.runTime.Observe(ev.Duration.Seconds())
	}
}

// worked notes how long a job took.
func (m *metrics) worked(kind string, begun time.Time) {
	m.jobs.WithLabelValues(kind).Observe(time.Since(begun).Seconds())
}

// webhook counts what h answers.
func (m *metrics) webhook(h http.Handler) http.Handler {
	return promhttp.InstrumentHandlerCounter(m.webhooks, h)
}

// read sets the gauges to how things are.
func (m *metrics) read(ctx context.Context) error {
	now := m.standing
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	b, err := now.store.Backlog(ctx)
	if err != nil {
		return err
	}
	for _, p := range []run.Phase{
		run.PhaseQueued, run.PhasePreparing, run.PhasePlanning, run.PhaseAwaitingPerson, run.PhaseIterating, run.PhaseFinishing,
	} {
		m.runs.WithLabelValues(string(p)).Set(float64(b.Runs[p]))
	}
	m.waiting.Set(float64(b.Waiting))
	m.age.Set(0)
	if !b.Oldest.IsZero() {
		m.age.Set(max(now.now().Sub(b.Oldest).Seconds(), 0))
	}
	m.size.Set(float64(b.Bytes))
	m.most.Set(float64(now.places))
	all, err := reconcile.ReadStanding(ctx, now.store)
	if err != nil {
		return err
	}
	m.work.Set(float64(all.Running))
	m.line.Set(float64(all.Waiting))
	free, _, err := machine.FreeDisk(now.dataDir)
	if err == nil && free != machine.Unknown {
		m.free.Set(float64(free))
	}
	return err
}

// gauges reads the gauges whenever they are gathered. Where that fails nothing is served: an
// old figure would look like a new one.
type gauges struct {
	*metrics

	all []prometheus.Collector
}

// Describe implements prometheus.Collector.
func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range g.all {
		c.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	if err := g.read(context.Background()); err != nil {
		ch <- prometheus.NewInvalidMetric(g.size.Desc(), err)
		return
	}
	for _, c := range g.all {
		c.Collect(ch)
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 2, Timeout: 10 * time.Second})
}

// metricsConns bounds the connections to the metrics.
const metricsConns = 32

// serveMetrics serves the metrics where the configuration says. What it returns ends that.
func (a *app) serveMetrics(ctx context.Context) (end func(context.Context) error, err error) {
	if a.cfg.MetricsListen == "" {
		return func(context.Context) error { return nil }, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.cfg.MetricsListen)
	if err != nil {
		return nil, &run.UserError{
			Message: "cannot listen on " + a.cfg.MetricsListen + ": " + err.Error(),
			Hint:    "choose another address with metrics_listen", Err: err,
		}
	}
	a.metricsAddr = l.Addr().String()
	a.log.Info().Str("metrics", a.metricsAddr).Msg("serving metrics")
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.metrics.handler())
	server := httpd.New(mux)
	server.BaseContext = func(net.Listener) context.Context { return a.log.WithContext(context.WithoutCancel(ctx)) }
	server.ErrorLog = slog.NewLogLogger(zerolog.NewSlogHandler(a.log), slog.LevelWarn)
	go func() {
		if err := server.Serve(httpd.Limit(l, metricsConns)); !errors.Is(err, http.ErrServerClosed) {
			a.log.Error().Err(err).Msg("serving metrics ended")
		}
	}()
	return func(ctx context.Context) error {
		if server.Shutdown(ctx) != nil {
			return server.Close()
		}
		return nil
	}, nil
}
