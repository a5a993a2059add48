//! A daemon of a measurement's own, seen from outside: what it costs at rest ([`idle`]), and how long a client waits for it
//! beside others that do to it as they like ([`disturbed`]).

mod client;
mod disturbed;
mod disturber;
mod idle;
mod rude;
mod usage;

pub use disturbed::{Beside, DisturbedPlace, DisturbedRow, Verb, disturbed};
pub(crate) use disturber::{SCENARIO, run as run_disturber};
pub use idle::{Idle, IdlePlace, IdleThread, idle};

use crate::error::{Error, Result};
use crate::load::{self, Served};
use core::time::Duration;
use dolmen_env::Address;
use dolmen_local::PoolOptions;
use dolmen_net::client::reach;
use dolmen_types::Label;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The pool that it serves, and a container in it.
const POOL: &str = "pool";
const CONT: &str = "cont";

/// How a client reaches a daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Through shared memory.
    Rings,
    /// Over its Unix socket.
    Socket,
    /// Over TCP.
    Tcp,
}

/// A daemon with a pool in memory, in a directory of this measurement; both go when it is dropped.
struct Ground {
    dir: PathBuf,
    served: Served,
    unix: Address,
    tcp: Address,
}

impl Ground {
    fn start(dir: &Path, targets: u16, capacity_bytes: u64) -> Result<Self> {
        let dir = dir.join(load::own_name());
        std::fs::create_dir_all(&dir).map_err(Error::system("make the directory for a pool"))?;
        let started = Self::serve(&dir, targets, capacity_bytes);
        if started.is_err() {
            clear(&dir);
        }
        let (served, unix, tcp) = started?;
        Ok(Self { dir, served, unix, tcp })
    }

    fn serve(dir: &Path, targets: u16, capacity_bytes: u64) -> Result<(Served, Address, Address)> {
        let options = PoolOptions {
            targets,
            label: Some(Label::new(POOL).map_err(dolmen_types::Error::from)?),
            capacity_bytes,
            volatile: true,
            ..PoolOptions::default()
        };
        // What it says of bad frames is asked for here.
        let served = load::serve(dir, &options, true, Stdio::null())?;
        let address = |text: Option<&str>| {
            let known = text.map(reach::address).transpose()?.flatten();
            known.ok_or_else(|| Error::Child { scenario: "the daemon".to_owned() })
        };
        let (unix, tcp) = (address(Some(&served.unix))?, address(served.tcp.as_deref())?);
        Ok((served, unix, tcp))
    }

    fn address(&self, way: Way) -> &Address {
        if way == Way::Tcp { &self.tcp } else { &self.unix }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        clear(&self.dir);
    }
}

fn clear(dir: &Path) {
    load::stop_load();
    // Ignored: what is left of it is in a directory that is named for this process.
    let _removed = std::fs::remove_dir_all(dir);
}

/// A time as options have it.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}
