package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
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

	ended      *prometheus.CounterVec
	iterations prometheus.Counter
	tasks      prometheus.Counter
	cost       prometheus.Counter
	runTime    prometheus.Histogram
	agentTime  prometheus.Histogram
	webhooks   *prometheus.CounterVec
	jobs       *prometheus.HistogramVec
}

// The kinds of jobs, as metrics name them.
const (
	jobDelivery = "delivery"
	jobTick     = "tick"
)

// newMetrics counts what happens, and reads how things are whenever it is asked.
func newMetrics(now standingMetrics) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ralph_runs_ended_total", Help: "Runs that ended, by the reason.",
		}, []string{"end"}),
		iterations: counter("ralph_iterations_total", "Agent calls that ended."),
		tasks:      counter("ralph_tasks_done_total", "Tasks that were committed."),
		cost:       counter("ralph_cost_dollars_total", "What agent calls cost, in dollars."),
		runTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ralph_run_duration_seconds", Help: "How long runs took.",
			Buckets: []float64{60, 300, 900, 1800, 3600, 7200, 14400, 28800},
		}),
		agentTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ralph_agent_call_duration_seconds", Help: "How long agent calls took.",
			Buckets: []float64{10, 30, 60, 180, 300, 600, 1200, 1800, 3600},
		}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ralph_webhooks_total", Help: "Requests to the webhook endpoint, by the status of the answer.",
		}, []string{"status"}),
		jobs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ralph_job_duration_seconds", Help: "How long jobs of the queue took, by kind.",
			Buckets: []float64{.01, .05, .25, 1, 5, 15, 60, 300},
		}, []string{"kind"}),
	}
	m.registry.MustRegister(m.ended, m.iterations, m.tasks, m.cost, m.runTime, m.agentTime, m.webhooks, m.jobs,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&now)
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := &statusWriter{ResponseWriter: w, status: http.StatusOK}
		h.ServeHTTP(answer, r)
		m.webhooks.WithLabelValues(strconv.Itoa(answer.status)).Inc()
	})
}

// statusWriter remembers the status of an answer.
type statusWriter struct {
	http.ResponseWriter

	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

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
	own, _, _ := net.SplitHostPort(a.cfg.MetricsListen)
	server := httpd.New(refuseBrowsers(own, mux))
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

// refuseBrowsers refuses what a page in a browser sends, also under a name that leads here:
// its requests name the page's own host, or where they come from. own is the host that the
// metrics are listened for at.
func refuseBrowsers(own string, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		host = strings.Trim(host, "[]")
		_, err := netip.ParseAddr(host)
		known := err == nil || host == "localhost" || own != "" && host == own
		if !known || r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
			http.Error(w, "not for browsers", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// standingMetrics are read whenever they are asked for.
type standingMetrics struct {
	store   *store.Store
	dataDir string
	// places is how many agents and checks may be at work.
	places int
	now    func() time.Time
}

var (
	descRuns = prometheus.NewDesc("ralph_runs", "Runs that have not ended, by phase.", []string{"phase"}, nil)
	descWait = prometheus.NewDesc("ralph_deliveries_waiting", "Webhooks that nobody has dealt with yet.", nil, nil)
	descAge  = prometheus.NewDesc("ralph_delivery_oldest_age_seconds", "Age of the oldest webhook that nobody has dealt with.",
		nil, nil)
	descWork = prometheus.NewDesc("ralph_places_taken", "Agents and checks that are at work.", nil, nil)
	descMost = prometheus.NewDesc("ralph_places", "Agents and checks that may be at work at once, 0 for any number.", nil, nil)
	descLine = prometheus.NewDesc("ralph_runs_in_line", "Runs that wait for a place or for room on the machine.", nil, nil)
	descSize = prometheus.NewDesc("ralph_database_bytes", "Size of the database.", nil, nil)
	descFree = prometheus.NewDesc("ralph_disk_free_bytes", "What is free on the disk of the data directory.", nil, nil)
)

// phases are those of a run that has not ended.
func phases() []run.Phase {
	return []run.Phase{
		run.PhaseQueued, run.PhasePreparing, run.PhasePlanning, run.PhaseAwaitingPerson, run.PhaseIterating, run.PhaseFinishing,
	}
}

// Describe implements prometheus.Collector.
func (*standingMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descRuns, descWait, descAge, descWork, descMost, descLine, descSize, descFree,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (s *standingMetrics) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	b, err := s.store.Backlog(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(descWait, err)
	} else {
		for _, p := range phases() {
			gauge(descRuns, float64(b.Runs[p]), string(p))
		}
		gauge(descWait, float64(b.Waiting))
		age := 0.0
		if !b.Oldest.IsZero() {
			age = max(s.now().Sub(b.Oldest).Seconds(), 0)
		}
		gauge(descAge, age)
		gauge(descSize, float64(b.Bytes))
	}
	gauge(descMost, float64(s.places))
	if all, err := reconcile.ReadStanding(ctx, s.store); err == nil {
		gauge(descWork, float64(all.Running))
		gauge(descLine, float64(all.Waiting))
	}
	if free, _, err := machine.FreeDisk(s.dataDir); err == nil && free != machine.Unknown {
		gauge(descFree, float64(free))
	}
}
