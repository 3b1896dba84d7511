"""What Prometheus sees of the server, at `/metrics`."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
ROWS = (1, 2, 4, 8, 16, 32, 64)


class Metrics:
    """Counters of one server. Labels come from what the server knows, never from what a client sends."""

    def __init__(self):
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, processor time, open files
        asked = ["door", "model", "signature"]
        self._requests = Counter(
            "imagesent_requests", "Requests answered, by gRPC code.", [*asked, "code"], registry=self.registry
        )
        self._seconds = Histogram(
            "imagesent_request_seconds", "From first byte to answer.", asked, buckets=SECONDS, registry=self.registry
        )
        self._batch_rows = Histogram(
            "imagesent_batch_rows", "Rows in a call of the model.", buckets=ROWS, registry=self.registry
        )
        self._batch_seconds = Histogram(
            "imagesent_batch_seconds", "A call of the model.", buckets=SECONDS, registry=self.registry
        )
        self._refused = Counter(
            "imagesent_refused", "Requests refused for want of room.", ["reason"], registry=self.registry
        )
        self._unreadable = Counter(
            "imagesent_unreadable_photos", "Photos that were not read.", ["reason"], registry=self.registry
        )
        for reason in ("queue", "memory", "connections"):
            self._refused.labels(reason)
        for reason in ("broken", "too large", "too many parts"):
            self._unreadable.labels(reason)

    def watch(self, store, batcher, bytes_under_way):
        """Adds what is read when Prometheus asks: the queue, the bytes, the versions, the version watcher."""
        gauge = Gauge("imagesent_queued_rows", "Rows waiting for a worker.", registry=self.registry)
        gauge.set_function(lambda: batcher.queued_rows)
        gauge = Gauge("imagesent_bytes_under_way", "Bytes of requests being answered.", registry=self.registry)
        gauge.set_function(bytes_under_way)
        gauge = Gauge(
            "imagesent_watcher_age_seconds", "Since the version folders were last looked at.", registry=self.registry
        )
        gauge.set_function(lambda: time.monotonic() - store.last_look)
        gauge = Gauge("imagesent_watcher_failures", "Looks at the folders that failed.", registry=self.registry)
        gauge.set_function(lambda: store.failed_looks)
        self.registry.register(_Versions(store))

    def answered(self, door, model, signature, code, seconds):
        self._requests.labels(door, model, signature, code).inc()
        self._seconds.labels(door, model, signature).observe(seconds)

    def batched(self, rows, seconds):
        self._batch_rows.observe(rows)
        self._batch_seconds.observe(seconds)

    def refused(self, reason):
        self._refused.labels(reason).inc()

    def unreadable(self, reasons):
        for reason in reasons:
            self._unreadable.labels(reason).inc()

    def text(self):
        """The metrics in Prometheus's text form."""
        return generate_latest(self.registry)


class _Versions:
    def __init__(self, store):
        self._store = store

    def collect(self):
        family = GaugeMetricFamily(
            "imagesent_model_version", "1 for the state a version is in.", labels=["model", "version", "state"]
        )
        for name in self._store.names:
            for number, state, _, _ in self._store.states(name):
                family.add_metric([name, str(number), state], 1)
        yield family
