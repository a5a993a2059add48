//! Directories for tests: one on the build's file system, one in memory; gone when dropped.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Place {
    dir: PathBuf,
}

impl Place {
    pub(crate) fn on_block() -> Self {
        Self::under(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub(crate) fn in_memory() -> Self {
        Self::under(Path::new("/dev/shm"))
    }

    fn under(parent: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("dolmen-env-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Ignored: a directory left behind in a scratch place must not fail a test that has passed.
        let _removed = std::fs::remove_dir_all(&self.dir);
    }
}
