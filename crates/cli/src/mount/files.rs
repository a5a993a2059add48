//! Mounts of those who may not reach a container's objects: what the kernel asks is passed on to the engine.

use super::{Cache, Mount, Shown, device, source, teller};
use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::path::word;
use crate::place;
use core::time::Duration;
use dolmen_client::Container;
use dolmen_fuse::{Options, Relay, Session};
use dolmen_types::{PropId, PropValue};
use std::path::Path;

pub(super) fn show(args: &Mount, dir: &Path) -> Outcome<Shown<Relay>> {
    if args.cache == Cache::Data {
        let why = "contents are not remembered where an engine checks who may read them";
        return Err(Failure::new(Exit::Usage, why).hint("leave out --cache data, or --files"));
    }
    let pool = place::open_to_last(&args.cont.pool, false, Duration::from_secs(args.deadline))?;
    let Some(remote) = pool.remote() else {
        let failure = Failure::new(Exit::Nobody, "no daemon has the pool, and files are used by way of one");
        return Err(failure.hint("start one with `dolmen serve`, or leave out --files"));
    };
    if !remote.link().has_files() {
        let failure = Failure::new(Exit::Other, "the daemon is of a release that answers for no files");
        return Err(failure.hint("restart it with this release"));
    }
    let cont = pool.container(&args.cont.cont).map_err(|failure| match failure.exit {
        Exit::Refused => failure.hint(lets_in(args)),
        _ => failure,
    })?;
    let layout = cont.opened_props().get(&PropId::CO_LAYOUT_TYPE).cloned();
    if layout.is_some_and(|layout| layout != PropValue::Number(dolmen_dfs::LAYOUT_POSIX)) {
        return Err(Failure::from(dolmen_dfs::Error::NotFormatted))
            .doing(|| format!("use container {} as a file system", args.cont.cont));
    }
    let relay = relay(args, &cont)?;
    let session = Session::start(device(args, dir, args.read_only)?, relay)?;
    Ok(Shown { session, cont, pool })
}

fn relay(args: &Mount, cont: &Container) -> Outcome<Relay> {
    let options = Options {
        caching: args.cache.caching(),
        timeout: Duration::from_secs(args.cache_timeout),
        threads: usize::from(args.threads),
        ring: args.io_uring,
        ..Options::default()
    };
    let about = format!("pid {}\n{}\n", std::process::id(), source(args));
    let asked = cont.clone();
    let begun = Relay::new(move |ask| asked.files(&ask), options, &about, teller(args));
    begun.map_err(|error| match error {
        dolmen_types::Error::NoPermission => {
            let why = "the container's files are for those who may reach its objects alone";
            Failure::new(Exit::Refused, why).hint(lets_in(args))
        }
        dolmen_types::Error::Busy => {
            Failure::new(Exit::InUse, "this user has as many such mounts as one may, or all have")
                .hint("take one away with `dolmen unmount`")
        }
        other => other.into(),
    })
}

/// What lets in those who may not reach a container's objects.
fn lets_in(args: &Mount) -> String {
    let (pool, cont) = (word(&args.cont.pool.pool), &args.cont.cont);
    format!(
        "its owner lets in everybody to its files with `dolmen cont set-prop {pool} {cont} files:everyone`"
    )
}

/// Adds, to why a container cannot be mounted by who may not reach its objects, how it can be.
pub(super) fn hinted(failure: Failure, cont: &Container) -> Failure {
    let lets_in = cont.opened_props().get(&PropId::CO_FILES) == Some(&PropValue::Number(1));
    if failure.exit == Exit::Refused && lets_in {
        failure.hint("mount it with --files: the engine checks then what you may do")
    } else {
        failure
    }
}

/// Takes down what was shown, when nobody uses it any more.
pub(super) fn finish(shown: Shown<Relay>) -> Outcome<()> {
    let Shown { session, cont, pool } = shown;
    let Some(relay) = session.finish() else { return Ok(()) };
    relay.end();
    drop(relay);
    drop(cont);
    pool.close().doing(|| "close the pool".to_owned())
}
