//! What a long command shows while it works: a bar, if somebody looks at it and it lasts.

use crate::output::human;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use dolmen_dfs::tree::Counts;
use dolmen_env::{Clock, RealClock};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Shorter commands show nothing.
const QUIET_NS: u64 = 1_000_000_000;
/// Between two drawings.
const REDRAW: Duration = Duration::from_millis(100);

/// A bar on standard error, or nothing where that is no terminal.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    begun_ns: u64,
    drawn_ns: AtomicU64,
}

impl Bar {
    /// Begins; `verb` says what is being done.
    pub(crate) fn begin(verb: &str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
            let style = ProgressStyle::with_template("{spinner} {prefix} {msg}");
            bar.set_style(style.expect("a fixed template"));
            bar.set_prefix(verb.to_owned());
            bar
        });
        let begun_ns = RealClock.monotonic_ns();
        Self { bar, begun_ns, drawn_ns: AtomicU64::new(begun_ns) }
    }

    /// Begins with a known end: `total` of what `what` names.
    pub(crate) fn of(total: u64, verb: &str, what: &str) -> Self {
        let begun = Self::begin(verb);
        if let Some(bar) = &begun.bar {
            let template = format!("{{prefix}} [{{bar:32}}] {{pos}} of {{len}} {what}, {{eta}} left");
            bar.set_style(ProgressStyle::with_template(&template).expect("a fixed template"));
            bar.set_length(total);
        }
        begun
    }

    /// Shows how much was done so far; from any thread, cheap.
    pub(crate) fn at(&self, done: u64) {
        if let Some((bar, _)) = self.drawn() {
            bar.set_position(done);
            bar.tick();
        }
    }

    /// The bar if it is to be drawn now, and how long it has gone on.
    fn drawn(&self) -> Option<(&ProgressBar, u64)> {
        let bar = self.bar.as_ref()?;
        let now_ns = RealClock.monotonic_ns();
        let drawn_ns = self.drawn_ns.load(Ordering::Relaxed);
        let since = now_ns.saturating_sub(self.begun_ns);
        if since < QUIET_NS || u128::from(now_ns.saturating_sub(drawn_ns)) < REDRAW.as_nanos() {
            return None;
        }
        if self.drawn_ns.compare_exchange(drawn_ns, now_ns, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return None;
        }
        if bar.is_hidden() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Some((bar, since))
    }

    /// Shows what was done so far; from any thread, cheap.
    pub(crate) fn show(&self, counts: Counts) {
        let Some((bar, since)) = self.drawn() else { return };
        let rate = u64::try_from(u128::from(counts.bytes) * 1_000_000_000 / u128::from(since.max(1)));
        let files = counts.files + counts.resumed;
        bar.set_message(format!("{files} files, {}, {}/s", human(counts.bytes), human(rate.unwrap_or(0))));
        bar.tick();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
