//! Versions, tags, time travel; what nobody needs is freed.

use crate::store_append::{cluster, two_columns};
use crate::store_world::{Kind, START_NS, World, all_ints};
use dolmen_env::SimClock;
use dolmen_rntuple::store::{Collected, Made, Stored, When};
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{AskedBy, BadName, Entries, Error, Named};

/// Three versions with 5, 10 and 15 entries, one a second.
fn three(world: &World) -> Stored {
    let stored = two_columns(world);
    let mut appender = stored.append().unwrap();
    for first in [0, 5, 10] {
        world.clock.advance(1_000_000_000);
        appender.push(&cluster(&stored, first)).unwrap();
        appender.commit().unwrap();
    }
    stored
}

#[test]
fn versions_are_in_the_order_of_their_times_whatever_the_clock_of_who_makes_them() {
    World::each(|world| {
        let stored = three(&world);
        let store = world.store_by(&SimClock::new(START_NS - 3_600_000_000_000));
        let late = store.ntuple("events").unwrap();
        let mut appender = late.append().unwrap();
        for first in [15, 20] {
            appender.push(&cluster(&late, first)).unwrap();
            appender.commit().unwrap();
        }
        let times: Vec<u64> = stored.versions().unwrap().iter().map(|version| version.time_ns).collect();
        assert!(times.is_sorted() && times.len() == 6, "{times:?}");
        assert_eq!(stored.open(When::Time(times[2])).unwrap().entry_count(), 10);
        assert_eq!(stored.open(When::Time(times[5])).unwrap().entry_count(), 25);
    });
}

#[test]
fn each_version_is_read_by_its_number_a_tag_and_the_time() {
    World::each(|world| {
        let stored = three(&world);
        let versions = stored.versions().unwrap();
        let found: Vec<_> = versions.iter().map(|v| (v.number, v.entry_count, v.made)).collect();
        let appended = Made::Appended;
        assert_eq!(found, [(1, 0, Made::Created), (2, 5, appended), (3, 10, appended), (4, 15, appended)]);
        let entries = |when| stored.open(when).map(|ntuple| ntuple.entry_count()).ok();
        assert_eq!(entries(When::Version(3)), Some(10));
        assert_eq!(all_ints(&stored.open(When::Version(2)).unwrap(), "a"), [0, 1, 2, 3, 4]);
        assert_eq!(entries(When::Version(9)), None);
        for (time_ns, wanted) in [(-1, None), (0, Some(0)), (999_999_999, Some(0)), (1_000_000_000, Some(5))]
        {
            assert_eq!(
                entries(When::Time(START_NS.checked_add_signed(time_ns).unwrap())),
                wanted,
                "{time_ns}"
            );
        }
        assert_eq!(entries(When::Time(u64::MAX)), Some(15));
        stored.tag("calibrated", When::Version(2), false).unwrap();
        assert_eq!(entries(When::Tag("calibrated")), Some(5));
        let again = stored.tag("calibrated", When::Now, false);
        assert!(matches!(again, Err(Error::Exists { name }) if &*name == "calibrated"));
        assert_eq!(stored.tag("calibrated", When::Now, true).unwrap().number, 4);
        let tags: Vec<_> = stored.tags().unwrap().into_iter().map(|tag| (tag.name, tag.version)).collect();
        assert_eq!(tags, [("calibrated".into(), 4)]);
        stored.untag("calibrated").unwrap();
        let gone = stored.untag("calibrated");
        assert!(
            matches!(&gone, Err(Error::NoVersion { name, by: AskedBy::Tag, .. }) if &**name == "calibrated")
        );
        assert!(matches!(stored.tag("none", When::Version(9), false), Err(Error::NoVersion { .. })));
        for (name, wanted) in [
            ("", BadName::Empty),
            (&"x".repeat(73), BadName::Longer(72)),
            ("a\nb", BadName::Unseen('\n')),
            ("\u{85}", BadName::Unseen('\u{85}')),
        ] {
            let found = stored.tag(name, When::Now, false);
            assert!(matches!(found, Err(Error::BadName { of: Named::Tag, why, .. }) if why == wanted));
        }
        stored.tag(&"x".repeat(72), When::Now, false).unwrap();
    });
}

#[test]
fn versions_go_when_they_were_kept_for_long_enough_but_those_with_a_tag() {
    World::each(|world| {
        let stored = three(&world);
        stored.keep(10_000_000_000).unwrap();
        stored.tag("kept", When::Version(2), false).unwrap();
        world.clock.advance(9_000_000_000);
        assert_eq!(stored.expire().unwrap(), 1, "the first was replaced ten seconds ago");
        world.clock.advance(u64::from(u32::MAX));
        assert_eq!(stored.expire().unwrap(), 1, "the current one and that with a tag stay");
        let numbers =
            |stored: &Stored| stored.versions().unwrap().iter().map(|v| v.number).collect::<Vec<_>>();
        assert_eq!(numbers(&stored), [2, 4]);
        assert_eq!(all_ints(&stored.open(When::Tag("kept")).unwrap(), "b"), [0, -1, -2, -3, -4]);
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..15).collect::<Vec<_>>());
        stored.untag("kept").unwrap();
        assert_eq!(world.store().collect().unwrap(), Collected { versions: 1, ..Collected::default() });
        assert_eq!(numbers(&stored), [4]);
        let mut appender = stored.append().unwrap();
        appender.push(&cluster(&stored, 15)).unwrap();
        appender.commit().unwrap();
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn versions_of_a_clock_that_is_ahead_were_replaced_no_time_ago() {
    World::each(|world| {
        let stored = three(&world);
        world.clock.step_to(START_NS + 1_000_000_001);
        stored.keep(1).unwrap();
        assert_eq!(stored.expire().unwrap(), 1, "only the first was replaced by this clock's time");
        stored.keep(0).unwrap();
        assert_eq!(stored.expire().unwrap(), 2);
    });
}

#[test]
fn a_time_whose_version_was_freed_shows_none_and_not_the_one_before() {
    World::each(|world| {
        let stored = three(&world);
        stored.tag("kept", When::Version(1), false).unwrap();
        stored.tag("kept, too", When::Version(3), false).unwrap();
        stored.keep(0).unwrap();
        let second = 1_000_000_000;
        let at = |time_ns| match stored.version(When::Time(START_NS + time_ns)) {
            Ok(version) => Some(version.number),
            Err(Error::NoVersion { by: AskedBy::FreedTime, others, .. }) => {
                assert!(!others.is_empty());
                None
            }
            Err(other) => panic!("{other}"),
        };
        let times =
            [0, second - 1, second, 2 * second - 1, 2 * second, 3 * second - 1, 3 * second, 9 * second];
        let found = || times.map(at);
        assert_eq!(found(), [1, 1, 2, 2, 3, 3, 4, 4].map(Some));
        assert_eq!(stored.expire().unwrap(), 1);
        let wanted = [Some(1), Some(1), None, None, Some(3), Some(3), Some(4), Some(4)];
        assert_eq!(found(), wanted);
        let mut appender = stored.append().unwrap();
        world.clock.advance(second);
        appender.push(&cluster(&stored, 15)).unwrap();
        appender.commit().unwrap();
        stored.untag("kept, too").unwrap();
        assert_eq!(stored.expire().unwrap(), 2);
        // The first was replaced when the second was made, although of that nothing is left.
        let wanted = [Some(1), Some(1), None, None, None, None, None, Some(5)];
        assert_eq!(found(), wanted);
        let gone = stored.version(When::Time(START_NS + second)).unwrap_err();
        assert!(gone.to_string().ends_with(" was freed; its versions are 1, 5"), "{gone}");
        stored.untag("kept").unwrap();
        stored.expire().unwrap();
        world.store().collect().unwrap();
        assert_eq!(stored.versions().unwrap().len(), 1);
        let before = stored.version(When::Time(START_NS + second)).unwrap_err();
        assert!(matches!(before, Error::NoVersion { by: AskedBy::Time, .. }));
    });
}

#[test]
fn whoever_writes_where_others_free_what_he_goes_on_from_goes_on_from_the_next() {
    const COMMITS: i32 = 12;
    World::each(|world| {
        let stored = two_columns(&world);
        stored.keep(0).unwrap();
        dolmen_env::scope(|threads| {
            let open = || world.another().ntuple("events").unwrap();
            for writer in [1, 2] {
                let stored = open();
                threads.spawn(move || {
                    for commit in 0..COMMITS {
                        let mut appender = stored.append().unwrap();
                        appender.push(&cluster(&stored, writer * 1000 + commit * 5)).unwrap();
                        appender.commit().unwrap();
                        stored.expire().unwrap();
                    }
                });
            }
            let (store, stored) = (world.another(), open());
            threads.spawn(move || {
                for at in 0..COMMITS / 2 {
                    let (name, of) = (format!("clone{at}"), store.ntuple("events").unwrap());
                    store.clone_fields(&of, When::Now, &[], &name).unwrap();
                    match stored.reshape(0, u64::MAX, &Options::default()) {
                        Ok(_) | Err(Error::Changed { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                    stored.open(When::Now).unwrap();
                }
            });
        });
        let found = all_ints(&stored.open(When::Now).unwrap(), "a");
        for writer in [1, 2] {
            let own: Vec<_> = found.iter().copied().filter(|at| at / 1000 == writer).collect();
            assert_eq!(own, (writer * 1000..writer * 1000 + COMMITS * 5).collect::<Vec<_>>());
        }
    });
}

#[test]
fn who_reads_or_writes_is_told_where_a_snapshot_was_gone_back_to_and_never_meets_another_version_of_the_number()
 {
    let world = World::of(Kind::Container);
    let stored = three(&world);
    let snapshot = world.cont().create_snapshot(None).unwrap();
    let append = |stored: &Stored, first: i32| {
        let mut appender = stored.append().unwrap();
        world.clock.advance(1_000_000_000);
        appender.push(&cluster(stored, first)).unwrap();
        appender.commit().unwrap().number
    };
    assert_eq!(append(&stored, 15), 5);
    let (fresh, read) = (stored.open(When::Now).unwrap(), stored.open(When::Now).unwrap());
    assert_eq!(all_ints(&read, "a"), (0..20).collect::<Vec<_>>());
    let (mut early, before) = (stored.append().unwrap(), stored.version(When::Now).unwrap());
    world.cont().rollback(snapshot).unwrap();
    let later = world.another().ntuple("events").unwrap();
    // Of the version that was gone back from nothing is there, and then there is another of its number.
    for is_made in [false, true] {
        if is_made {
            assert_eq!(append(&later, 100), before.number);
        }
        for ntuple in [&fresh, &read] {
            let found = ntuple.read(&[0], Entries { first: 0, end: 20 });
            assert!(matches!(found, Err(Error::Freed { version: 5 })), "{found:?}");
        }
    }
    // Who had begun to append goes on from what is there now.
    early.push(&cluster(&later, 200)).unwrap();
    early.commit().unwrap();
    let wanted: Vec<i32> = (0..15).chain(100..105).chain(200..205).collect();
    assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), wanted);
    assert_eq!(stored.scrub(When::Now, |_| ()).unwrap().bad.len(), 0);
}

#[test]
fn an_ntuple_that_is_destroyed_leaves_nothing_and_others_as_they_were() {
    World::each(|world| {
        let stored = three(&world);
        let one = stored.open(When::Now).unwrap();
        let before = world.object_count();
        world.store().import("other", &one, &Default::default()).unwrap();
        let mut behind = world.another().ntuple("other").unwrap().append().unwrap();
        behind.push(&cluster(&stored, 0)).unwrap();
        let collected = world.store().destroy("other").unwrap();
        assert_eq!(
            collected,
            Collected { clusters: 3, kept: 3, alive: 1, ntuples: 1, ..Collected::default() }
        );
        assert!(matches!(behind.commit(), Err(Error::NoNtuple { .. })));
        behind.discard().unwrap();
        assert_eq!(world.store().collect().unwrap().clusters, 1);
        assert_eq!(world.object_count(), before);
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..15).collect::<Vec<_>>());
        assert!(matches!(world.store().destroy("other"), Err(Error::NoNtuple { .. })));
        world.store().destroy("events").unwrap();
        assert_eq!(world.object_count(), 0);
    });
}

#[test]
fn what_tags_keep_is_not_destroyed_without_them_and_what_is_destroyed_takes_no_tags() {
    World::each(|world| {
        let stored = three(&world);
        let others = world.another();
        stored.tag("paper", When::Version(2), false).unwrap();
        let kept = others.destroy_untagged("events");
        let told = kept.unwrap_err();
        assert!(matches!(&told, Error::Tagged { tags, .. } if tags[0].version == 2), "{told:?}");
        assert_eq!(told.to_string(), "tag paper keeps version 2 of \"events\"");
        assert_eq!(all_ints(&stored.open(When::Tag("paper")).unwrap(), "a"), [0, 1, 2, 3, 4]);
        stored.untag("paper").unwrap();
        assert_eq!(others.destroy_untagged("events").unwrap().clusters, 3);
        let late = stored.tag("paper", When::Now, false);
        assert!(matches!(late, Err(Error::NoNtuple { .. })), "{late:?}");
        assert!(matches!(others.destroy_untagged("events"), Err(Error::NoNtuple { .. })));
    });
}

#[test]
fn of_a_tag_and_a_destruction_at_once_one_sees_the_other() {
    World::each(|world| {
        for _ in 0..20 {
            let stored = two_columns(&world);
            let tagged = dolmen_env::scope(|threads| {
                let tags = threads.spawn(|| stored.tag("paper", When::Now, false));
                let destroyed = world.another().destroy_untagged("events");
                let tagged = tags.join().unwrap();
                assert_ne!(tagged.is_ok(), destroyed.is_ok(), "{tagged:?} {destroyed:?}");
                tagged
            });
            if tagged.is_ok() {
                stored.untag("paper").unwrap();
                world.another().destroy_untagged("events").unwrap();
            }
        }
    });
}
