//! What a process looks after while one of its threads waits for another process.

use core::time::Duration;
use std::sync::OnceLock;

/// Between two looks: nobody minds so much.
const REST: Duration = Duration::from_millis(100);

static LOOK: OnceLock<fn()> = OnceLock::new();

/// From now on each thread that waits for another process, by [`Socket`](crate::Socket) or [`wait`](crate::wait), calls this when it
/// begins to, and several times a second. It may be called with locks held, and must not wait itself. The first such call is kept.
pub fn look_while_waiting(look: fn()) {
    // Ignored: there is one already.
    let _first = LOOK.set(look);
}

/// A look, for who waits for a thread that waits.
pub fn look() {
    if let Some(look) = LOOK.get() {
        look();
    }
}

/// A look, and how much of the time that is left to wait until the next one.
pub(crate) fn part_of(left: Option<Duration>) -> Option<Duration> {
    let Some(look) = LOOK.get() else { return left };
    look();
    Some(left.map_or(REST, |left| left.min(REST)))
}

#[cfg(test)]
mod tests {
    use crate::{Address, Bell, Listener, Socket};
    use core::sync::atomic::{AtomicU64, Ordering};
    use core::time::Duration;

    static LOOKS: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn who_waits_for_a_socket_looks_several_times_and_waits_no_less() {
        super::look_while_waiting(|| {
            LOOKS.fetch_add(1, Ordering::Relaxed);
        });
        let name = std::env::temp_dir().join(format!("dolmen-env-meanwhile-{}", std::process::id()));
        let listener = Listener::bind(&Address::Unix(name.clone())).unwrap();
        let socket = Socket::connect(listener.address(), Duration::from_secs(10)).unwrap();
        let begun = LOOKS.load(Ordering::Relaxed);
        let ready = socket.wait(true, false, Some(super::REST * 3)).unwrap();
        assert!(!ready.readable && LOOKS.load(Ordering::Relaxed) >= begun + 3);
        let bell = Bell::new().unwrap();
        bell.ring();
        // It is woken as before.
        assert!(!socket.wait_beside(true, false, Some(&bell), None).unwrap().readable);
        std::fs::remove_file(name).unwrap();
    }
}
