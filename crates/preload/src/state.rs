//! What the library knows in a process. A forked child begins with nothing.

use crate::files::Files;
use crate::mounts::Mounts;
use crate::{report, settle, system};
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use dolmen_dfs::Cred;
use std::sync::{Arc, Once, OnceLock, PoisonError, RwLock, RwLockWriteGuard};

/// What a process's environment says.
pub(crate) struct Settings {
    /// `DOLMEN_PRELOAD_REPORT`: tell at the end what was done.
    pub(crate) reports: bool,
    /// `DOLMEN_PRELOAD_AFTER`: so many calls on a mount are handed on before a process connects, which costs as much.
    pub(crate) after: u32,
    /// `DOLMEN_PRELOAD=off`: take nothing.
    pub(crate) is_off: bool,
}

/// A process that does less than this is faster without a connection of its own.
const AFTER_DEFAULT: u32 = 24;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) files: Files,
    pub(crate) mounts: Mounts,
    /// Guards: that no file is taken while the process forks; taken first.
    pub(crate) forking: RwLock<()>,
    cred: OnceLock<(Cred, AtomicU32)>,
}

// Null, or leaked: whoever has looked at one may go on with it.
static STATE: AtomicPtr<State> = AtomicPtr::new(core::ptr::null_mut());
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// That of this process.
pub(crate) fn state() -> &'static State {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: the functions stay as long as the library, of which the system takes note.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
        // SAFETY: as above.
        unsafe { libc::atexit(report::at_end) };
        report::begin();
    });
    let known = STATE.load(Ordering::Acquire);
    // SAFETY: it is null, or was leaked, and nobody changes it.
    if let Some(state) = unsafe { known.as_ref() } {
        return state;
    }
    let made = Box::into_raw(Box::default());
    match STATE.compare_exchange(core::ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: it was leaked for good.
        Ok(_) => unsafe { &*made },
        Err(_other) => {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(made) });
            state()
        }
    }
}

/// What the environment said when the library first looked.
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let value = |name| std::env::var(name).ok();
        let after = value("DOLMEN_PRELOAD_AFTER").and_then(|after| after.parse().ok());
        Settings {
            reports: value("DOLMEN_PRELOAD_REPORT").is_some_and(|value| value == "1"),
            after: after.unwrap_or(AFTER_DEFAULT),
            is_off: value("DOLMEN_PRELOAD").is_some_and(|value| value == "off"),
        }
    })
}

/// Whether nothing is taken any more.
pub(crate) fn is_off() -> bool {
    IS_OFF.load(Ordering::Relaxed) || settings().is_off
}

/// Takes nothing from now on: the process is somebody else, or somewhere else, than when it connected.
pub(crate) fn turn_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

impl State {
    /// As whom files are made and opened.
    pub(crate) fn cred(&self) -> Arc<Cred> {
        let (cred, umask) = self.known_cred();
        Arc::new(Cred { umask: umask.load(Ordering::Relaxed), ..cred.clone() })
    }

    fn known_cred(&self) -> &(Cred, AtomicU32) {
        self.cred.get_or_init(|| {
            let (uid, gid, groups) = system::identity();
            let umask = system::umask();
            (Cred { uid, gid, groups, umask }, AtomicU32::new(umask))
        })
    }

    /// The user as whom the process acts, and the mask of what it makes.
    pub(crate) fn user(&self) -> (u32, u32) {
        let (cred, umask) = self.known_cred();
        (cred.uid, umask.load(Ordering::Relaxed))
    }

    /// Notes a new mask.
    pub(crate) fn set_umask(&self, mask: u32) {
        self.known_cred().1.store(mask & 0o777, Ordering::Relaxed);
    }
}

thread_local! {
    /// What this thread holds while it forks.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

extern "C" fn before_fork() {
    // A thread that forks in this library has nothing to be settled: it is none of the program's.
    crate::guard::inside((), || {
        let held = state().forking.write().unwrap_or_else(PoisonError::into_inner);
        settle::all();
        // Ignored: a thread that ends, and forks in a destructor, holds nothing.
        _ = HELD.try_with(|own| own.replace(Some(held)));
    });
}

extern "C" fn in_parent() {
    // Ignored: as above.
    _ = HELD.try_with(|own| drop(own.take()));
}

extern "C" fn in_child() {
    // Locks of the parent's threads stay locked for ever, in what nobody looks at any more.
    // Ignored: as above.
    _ = HELD.try_with(|own| core::mem::forget(own.take()));
    STATE.store(core::ptr::null_mut(), Ordering::Release);
    crate::files::forget();
    dolmen_env::forget_apart();
    report::clear();
}
