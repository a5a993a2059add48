//! Files on targets of several engines that are given to somebody: all of it or nothing, over the deaths of engines.

use crate::child::until;
use crate::common::pool;
use crate::ranks::Engines;
use crate::versions::charge_of;
use dolmen_client::Container;
use dolmen_client::quota::Limits;
use dolmen_codec::pool::ContName;
use dolmen_dfs::{Dfs, Follow, FormatOptions, MountOptions, OpenOptions, errno};
use dolmen_env::scope;
use dolmen_types::Label;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const FIRST: u32 = 4_200_007;
const SECOND: u32 = 4_200_008;

/// Chunks of the file, more than targets, and bytes of it.
const CHUNKS: u64 = 24;
const BYTES: u64 = CHUNKS * 1000;

fn charges(cont: &Container) -> [(u64, u64); 2] {
    [charge_of(cont, FIRST), charge_of(cont, SECOND)]
}

/// That all of the file is whose it is by its record, and nothing the other's.
fn assert_is_one_s(cont: &Container, fs: &Dfs) {
    let expected = match fs.stat("/file").unwrap().uid {
        FIRST => [(BYTES, 1), (0, 0)],
        SECOND => [(0, 0), (BYTES, 1)],
        other => panic!("{other}"),
    };
    assert_eq!(charges(cont), expected);
}

#[test]
fn a_file_on_several_engines_is_given_whole_or_not_at_all_whichever_of_them_dies() {
    let engines = Engines::start(3);
    engines.create(false);
    let pool = pool(&engines.link(0), "p");
    let label = Label::new("files").unwrap();
    pool.create_container(Some(label.clone()), Dfs::container_props()).unwrap();
    let cont = pool.open_container(&ContName::Label(label)).unwrap();
    Dfs::format(&cont, &FormatOptions::default()).unwrap();
    let fs = Dfs::mount(&cont, &MountOptions::default()).unwrap();
    let file = fs.open("/file", &OpenOptions::CREATE).unwrap();
    fs.chown("/file", Some(FIRST), None, Follow::No).unwrap();
    for chunk in 0..CHUNKS {
        file.write_at(chunk << 20, &[7; 1000]).unwrap();
    }
    assert_is_one_s(&cont, &fs);
    for limits in [Limits { bytes: BYTES - 1, files: 0 }, Limits { bytes: 1000, files: 0 }] {
        cont.set_quota(Some(SECOND), limits).unwrap();
        let refused = fs.chown("/file", Some(SECOND), None, Follow::No).unwrap_err();
        assert_eq!(refused.errno(), errno::EDQUOT, "{refused:?}");
        assert_eq!((fs.stat("/file").unwrap().uid, charges(&cont)), (FIRST, [(BYTES, 1), (0, 0)]));
    }
    for uid in [FIRST, SECOND] {
        cont.set_quota(Some(uid), Limits { bytes: BYTES, files: 1 }).unwrap();
    }
    for uid in [SECOND, FIRST, SECOND] {
        fs.chown("/file", Some(uid), None, Follow::No).unwrap();
        assert_is_one_s(&cont, &fs);
        assert_eq!(file.write_at(CHUNKS << 20, &[1]).unwrap_err().errno(), errno::EDQUOT);
    }
    let (is_over, given) = (AtomicBool::new(false), AtomicU32::new(0));
    scope(|threads| {
        threads.spawn(|| {
            for uid in [FIRST, SECOND].into_iter().cycle() {
                // An engine that is away may be waited for in vain, and so may its share.
                if fs.chown("/file", Some(uid), None, Follow::No).is_ok() {
                    given.fetch_add(1, Ordering::Relaxed);
                }
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        let some_more = || {
            let before = given.load(Ordering::Relaxed);
            until("some are given", || given.load(Ordering::Relaxed) > before + 3);
        };
        for rank in [1, 0, 2, 1] {
            some_more();
            engines.kill(rank);
            engines.start_again(rank);
        }
        some_more();
        is_over.store(true, Ordering::Relaxed);
    });
    assert_is_one_s(&cont, &fs);
    for uid in [FIRST, SECOND, FIRST] {
        fs.chown("/file", Some(uid), None, Follow::No).unwrap();
        assert_is_one_s(&cont, &fs);
    }
    file.close().unwrap();
    let audits = pool.check().unwrap();
    assert!(audits.iter().all(|audit| audit.findings.is_empty()), "{audits:?}");
    engines.assert_sound();
}
