//! Time, latencies and processor time of a stretch of work.

use crate::row::Row;
use dolmen_env::{Clock, RealClock, process_cpu_ns};

/// Every this-many-th operation is timed: a clock read costs as much as 5 % of a small update. A prime, so that
/// it meets the background steps, which come every power of two, as often as they are.
const TIMED_EVERY: u64 = 17;
/// Buckets for each doubling of the latency: a quantile is exact to 6 %.
const BUCKETS_PER_DOUBLING: usize = 16;

/// Counts of latencies in buckets that grow by a sixteenth.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; 64 * BUCKETS_PER_DOUBLING], total: 0 }
    }

    pub(crate) fn add(&mut self, ns: u64) {
        let ns = ns.max(16);
        let exponent = 63 - ns.leading_zeros() as usize;
        let part = usize::try_from(ns >> (exponent - 4)).unwrap_or(0) & (BUCKETS_PER_DOUBLING - 1);
        self.counts[exponent * BUCKETS_PER_DOUBLING + part] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// Upper end of the bucket below which this part of a thousand lies, in microseconds.
    pub(crate) fn quantile_us(&self, per_mille: u64) -> f64 {
        let wanted = (self.total * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                let (exponent, part) = (bucket / BUCKETS_PER_DOUBLING, bucket % BUCKETS_PER_DOUBLING);
                let low = (1_u64 << exponent) + ((part as u64 + 1) << (exponent.max(4) - 4));
                return low as f64 / 1e3;
            }
        }
        0.0
    }
}

/// Measures one stretch of operations.
#[derive(Debug)]
pub(crate) struct Meter {
    start_ns: u64,
    cpu_ns: u64,
    /// When it was stopped, and the processor time then; running if there is none.
    stopped: Option<(u64, u64)>,
    pub(crate) ops: u64,
    pub(crate) bytes: u64,
    histogram: Histogram,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self {
            start_ns: now(),
            cpu_ns: process_cpu_ns(),
            stopped: None,
            ops: 0,
            bytes: 0,
            histogram: Histogram::new(),
        }
    }

    /// Runs one operation of `bytes`, sometimes timed.
    #[inline]
    pub(crate) fn run<T>(&mut self, bytes: u64, work: impl FnOnce() -> T) -> T {
        self.ops += 1;
        self.bytes += bytes;
        if !self.ops.is_multiple_of(TIMED_EVERY) {
            return work();
        }
        let start = now();
        let out = work();
        self.histogram.add(now() - start);
        out
    }

    /// Runs one operation, always timed.
    pub(crate) fn run_timed<T>(&mut self, bytes: u64, work: impl FnOnce() -> T) -> T {
        let start = now();
        let out = work();
        self.done(bytes, now() - start);
        out
    }

    /// Counts an operation that took this long.
    pub(crate) fn done(&mut self, bytes: u64, ns: u64) {
        self.ops += 1;
        self.bytes += bytes;
        self.histogram.add(ns);
    }

    /// Ends the time; what comes later does not count.
    pub(crate) fn stop(&mut self) {
        self.stopped = Some((now(), process_cpu_ns()));
    }

    pub(crate) fn seconds(&self) -> f64 {
        let end_ns = self.stopped.map_or_else(now, |(end_ns, _)| end_ns);
        (end_ns - self.start_ns) as f64 / 1e9
    }

    /// Whether this many seconds have passed; reads the clock only now and then.
    #[inline]
    pub(crate) fn is_over(&self, seconds: f64) -> bool {
        self.ops.is_multiple_of(1024) && self.seconds() >= seconds
    }

    /// Ends the stretch.
    pub(crate) fn row(self, name: &str, op: &str, size_bytes: u64) -> Row {
        let seconds = self.seconds().max(1e-9);
        let cpu_ns = self.stopped.map_or_else(process_cpu_ns, |(_, cpu_ns)| cpu_ns);
        let cpu_s = (cpu_ns - self.cpu_ns) as f64 / 1e9;
        Row {
            ops_per_s: self.ops as f64 / seconds,
            bytes_per_s: self.bytes as f64 / seconds,
            p50_us: self.histogram.quantile_us(500),
            p99_us: self.histogram.quantile_us(990),
            cpu_s,
            value: None,
            unit: None,
            ..Row::value(name, op, size_bytes, 0.0, "")
        }
    }

    /// Joins what several threads did between the same start and end.
    pub(crate) fn joined(parts: Vec<Self>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let mut all = parts.next()?;
        for part in parts {
            all.ops += part.ops;
            all.bytes += part.bytes;
            all.start_ns = all.start_ns.min(part.start_ns);
            all.cpu_ns = all.cpu_ns.min(part.cpu_ns);
            all.stopped = all.stopped.max(part.stopped);
            all.histogram.merge(&part.histogram);
        }
        Some(all)
    }
}

pub(crate) fn now() -> u64 {
    RealClock.monotonic_ns()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_added() {
        let mut histogram = Histogram::new();
        (1..=1000_u64).for_each(|us| histogram.add(us * 1000));
        let (half, most) = (histogram.quantile_us(500), histogram.quantile_us(990));
        assert!((470.0..=540.0).contains(&half), "{half}");
        assert!((940.0..=1060.0).contains(&most), "{most}");
    }
}
