//! What keeps requests going: one runtime a process, with few threads, on which nobody but the HTTP client has tasks.

use crate::error::{Error, Result};
use dolmen_env::PerProcess;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Threads that wait for the network: bytes pass through them, and are copied by who asked for them.
const THREADS: usize = 2;

/// That of this process; a forked child makes its own, as its parent's threads are not there.
static RUNTIME: PerProcess<core::result::Result<Runtime, Arc<std::io::Error>>> = PerProcess::new(start);

/// The runtime of this process.
pub(crate) fn runtime() -> Result<&'static Runtime> {
    RUNTIME.get().as_ref().map_err(|error| Error::Start { source: Box::new(Arc::clone(error)) })
}

fn start() -> core::result::Result<Runtime, Arc<std::io::Error>> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).max_blocking_threads(THREADS).thread_name("dolmen-remote");
    builder.enable_all().build().map_err(Arc::new)
}
