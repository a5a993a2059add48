//! What keeps requests going: one runtime a process, with few threads, on which nobody but the HTTP client has tasks.

use crate::error::{Error, Result};
use core::future::Future;
use core::pin::pin;
use core::time::Duration;
use dolmen_env::PerProcess;
use dolmen_rntuple::bucket::{BucketError, BucketResult, Failure};
use dolmen_rntuple::stop;
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

/// How long an answer is waited for before it is asked whether it is wanted still: so long it takes at most to end what waits.
const ASK: Duration = Duration::from_millis(100);

/// Waits for an answer, unless whoever waits is told to stop ([`stop`]): requests under way are given up then.
#[expect(
    clippy::disallowed_methods,
    reason = "what waits for the network on this runtime is woken by its timer alone"
)]
pub(crate) fn wait<T>(
    runtime: &Runtime,
    (doing, key): (&'static str, &str),
    answer: impl Future<Output = T>,
) -> BucketResult<T> {
    runtime.block_on(async {
        let mut answer = pin!(answer);
        loop {
            match tokio::time::timeout(ASK, &mut answer).await {
                Ok(answer) => return Ok(answer),
                Err(_none_yet) if stop::is_called_off() => {
                    let source = "it was called off".into();
                    return Err(BucketError { failure: Failure::Stopped, doing, key: key.into(), source });
                }
                Err(_none_yet) => {}
            }
        }
    })
}

fn start() -> core::result::Result<Runtime, Arc<std::io::Error>> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).max_blocking_threads(THREADS).thread_name("dolmen-remote");
    builder.enable_all().build().map_err(Arc::new)
}
