//! A pool to test on.

use crate::watched::Watched;
use dolmen_client::{Container, Credentials, Options, Pool, Props};
use dolmen_codec::pool::ContName;
use dolmen_env::{Clock, Rng, Secrets, SimClock};
use std::sync::Arc;

pub(crate) const START_NS: u64 = 1_790_000_000_000_000_000;

/// A pool of `target_count` targets, watched.
pub(crate) fn serve(target_count: u16) -> Arc<Watched> {
    let sim = SimClock::new(START_NS);
    let clock: Arc<dyn Clock> = Arc::new(sim.clone());
    let stores = (0..target_count).map(|no| super::store(no, &clock)).collect();
    Arc::new(Watched::new(crate::pool_of::<super::Store>(stores, clock), sim))
}

pub(crate) fn options(served: &Watched) -> Options {
    let mut options = Options::new(Credentials { uid: 1, gid: 2, project: 3 }).unwrap();
    options.clock = Arc::new(served.clock.clone());
    options.rng = Rng::from_seed(7);
    options.secrets = Secrets::Repeatable(Rng::from_seed(7));
    options
}

/// A pool, a client of it, and an open container.
pub(crate) fn open(target_count: u16) -> (Arc<Watched>, Pool, Container) {
    let served = serve(target_count);
    let transport: Arc<Watched> = Arc::clone(&served);
    let pool = Pool::connect_with(transport, options(&served)).unwrap();
    let cont = new_container(&pool);
    (served, pool, cont)
}

pub(crate) fn new_container(pool: &Pool) -> Container {
    let handle = pool.create_container(None, Props::new()).unwrap();
    pool.open_container(&ContName::Uuid(handle.uuid)).unwrap()
}
