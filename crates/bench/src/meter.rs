//! Time, latencies and processor time of a stretch of work.

use crate::row::Row;
use dolmen_env::{Clock, RealClock, process_cpu_ns};
use serde::{Deserialize, Serialize};

/// Every this-many-th operation is timed: a clock read costs as much as 5 % of a small update. A prime, so that
/// it meets the background steps, which come every power of two, as often as they are.
const TIMED_EVERY: u64 = 17;
/// Buckets for each doubling of the latency: a quantile is exact to 6 %.
const BUCKETS_PER_DOUBLING: usize = 16;

/// Counts of latencies in buckets that grow by a sixteenth.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "Vec<(usize, u64)>", into = "Vec<(usize, u64)>")]
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

    pub(crate) fn total(&self) -> u64 {
        self.total
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

/// The buckets that hold something, by number.
impl From<Histogram> for Vec<(usize, u64)> {
    fn from(histogram: Histogram) -> Self {
        histogram.counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect()
    }
}

impl From<Vec<(usize, u64)>> for Histogram {
    fn from(buckets: Vec<(usize, u64)>) -> Self {
        let mut histogram = Self::new();
        for (bucket, count) in buckets {
            if let Some(own) = histogram.counts.get_mut(bucket) {
                *own += count;
                histogram.total += count;
            }
        }
        histogram
    }
}

/// Measures operations, in one stretch or in several with pauses between.
#[derive(Debug)]
pub struct Meter {
    /// When the present stretch began, and the processor time then; `None` while it pauses.
    running: Option<(u64, u64)>,
    /// Time and processor time of stretches that have ended.
    before_ns: u64,
    before_cpu_ns: u64,
    /// Operations so far.
    pub ops: u64,
    /// Their payload.
    pub bytes: u64,
    histogram: Histogram,
}

impl Meter {
    /// Begins to count time.
    #[must_use]
    pub fn start() -> Self {
        let mut meter = Self::paused();
        meter.resume();
        meter
    }

    /// A meter whose time begins with the first [`Meter::resume`].
    #[must_use]
    pub fn paused() -> Self {
        let histogram = Histogram::new();
        Self { running: None, before_ns: 0, before_cpu_ns: 0, ops: 0, bytes: 0, histogram }
    }

    /// Begins a stretch.
    pub fn resume(&mut self) {
        self.running = Some((now(), process_cpu_ns()));
    }

    /// Ends a stretch; what comes before the next one does not count.
    pub fn pause(&mut self) {
        if let Some((start_ns, start_cpu_ns)) = self.running.take() {
            self.before_ns += now() - start_ns;
            self.before_cpu_ns += process_cpu_ns() - start_cpu_ns;
        }
    }

    /// Runs one operation of `bytes`, sometimes timed.
    #[inline]
    pub fn run<T>(&mut self, bytes: u64, work: impl FnOnce() -> T) -> T {
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

    /// Runs a batch of operations of together `bytes`; the latency is that of the batch, always timed.
    #[inline]
    pub fn run_batch<T>(&mut self, count: usize, bytes: u64, work: impl FnOnce() -> T) -> T {
        let start = now();
        let out = work();
        self.done(bytes, now() - start);
        self.ops += count as u64 - 1;
        out
    }

    /// Runs one operation, always timed.
    pub fn run_timed<T>(&mut self, bytes: u64, work: impl FnOnce() -> T) -> T {
        let start = now();
        let out = work();
        self.done(bytes, now() - start);
        out
    }

    /// Counts an operation that took this long.
    pub fn done(&mut self, bytes: u64, ns: u64) {
        self.ops += 1;
        self.bytes += bytes;
        self.histogram.add(ns);
    }

    /// Time of all stretches, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        let running_ns = self.running.map_or(0, |(start_ns, _)| now() - start_ns);
        (self.before_ns + running_ns) as f64 / 1e9
    }

    /// Whether this many seconds have passed; reads the clock only now and then.
    #[inline]
    #[must_use]
    pub fn is_over(&self, seconds: f64) -> bool {
        self.ops.is_multiple_of(1024) && self.seconds() >= seconds
    }

    /// Ends the time and tells what was measured.
    #[must_use]
    pub fn row(mut self, name: &str, op: &str, size_bytes: u64) -> Row {
        self.pause();
        let seconds = self.seconds().max(1e-9);
        Row {
            ops_per_s: self.ops as f64 / seconds,
            bytes_per_s: self.bytes as f64 / seconds,
            p50_us: self.histogram.quantile_us(500),
            p99_us: self.histogram.quantile_us(990),
            cpu_s: self.before_cpu_ns as f64 / 1e9,
            value: None,
            unit: None,
            ..Row::value(name, op, size_bytes, 0.0, "")
        }
    }

    /// Joins what several threads did at the same time: the longest time counts, and the processor time of the
    /// process, which each of them saw.
    pub(crate) fn joined(parts: Vec<Self>) -> Option<Self> {
        let mut parts = parts.into_iter();
        let mut all = parts.next()?;
        all.pause();
        for mut part in parts {
            part.pause();
            all.ops += part.ops;
            all.bytes += part.bytes;
            all.before_ns = all.before_ns.max(part.before_ns);
            all.before_cpu_ns = all.before_cpu_ns.max(part.before_cpu_ns);
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

    #[test]
    fn a_histogram_comes_back_from_text_as_it_was() {
        let mut histogram = Histogram::new();
        [17, 1000, 1000, 123_456_789].into_iter().for_each(|ns| histogram.add(ns));
        let text = serde_json::to_string(&histogram).unwrap();
        let back: Histogram = serde_json::from_str(&text).unwrap();
        assert_eq!((&back.counts, back.total), (&histogram.counts, histogram.total));
    }
}
