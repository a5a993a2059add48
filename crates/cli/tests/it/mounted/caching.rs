//! What a mount may remember of what others change.

use super::{Mounted, nanoseconds};
use core::time::Duration;
use dolmen_env::{Clock, RealClock};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn what_another_mount_has_changed_is_seen_after_the_timeout_at_the_latest() {
    for (cache, timeout_s) in [("off", 0), ("metadata", 0), ("metadata", 1), ("data", 1)] {
        let seconds = timeout_s.to_string();
        let args = ["--cache", cache, "--cache-timeout", &seconds];
        let Some(mut mounted) = Mounted::served(&format!("caching-{cache}-{seconds}"), &args) else { return };
        mounted.mount("mnt2", &[]);
        let other = mounted.place.path("mnt2");
        fs::write(other.join("f"), b"stone").unwrap();
        let [mode, old, new] = ["f", "old", "new"].map(|name| mounted.path(name));
        for round in 0..3_u32 {
            let wanted = 0o600 + round;
            fs::write(other.join("old"), b"x").unwrap();
            // The kernel remembers all of it from here on at the latest.
            let seen =
                || (fs::metadata(&mode).unwrap().permissions().mode() & 0o777, old.exists(), new.exists());
            let before = seen();
            let since_ns = RealClock.monotonic_ns();
            assert!(before.0 != wanted && !before.2, "{cache}: {before:?}");
            fs::set_permissions(other.join("f"), fs::Permissions::from_mode(wanted)).unwrap();
            fs::rename(other.join("old"), other.join("new")).unwrap();
            loop {
                let begun_ns = RealClock.monotonic_ns();
                let now = seen();
                if now == (wanted, false, true) {
                    break;
                }
                // The kernel counts in ticks, of 10 ms at most, and takes a few more.
                let ticks = if timeout_s == 0 { Duration::ZERO } else { Duration::from_millis(50) };
                let timeout_ns = nanoseconds(Duration::from_secs(timeout_s) + ticks);
                assert!(begun_ns - since_ns <= timeout_ns, "{cache}, {timeout_s} s, round {round}: {now:?}");
            }
            fs::remove_file(other.join("new")).unwrap();
            while new.exists() {
                std::thread::park_timeout(super::REST);
            }
        }
        mounted.finish();
    }
}
