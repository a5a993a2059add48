//! An object store of the S3 kind in memory, which a test cuts off; and what is true of a store in one alone.

use crate::store_append::{cluster, two_columns};
use crate::store_world::{Faults, Kind, LEASE_NS, TICK_NS, World, all_ints, header};
use core::time::Duration;
use dolmen_env::{Clock, SimClock};
use dolmen_rntuple::bucket::{
    Bucket, BucketError, BucketResult, Failure, Got, Object, Put, Read, Replaced, Tag, Upload,
};
use dolmen_rntuple::format::locator::Locator;
use dolmen_rntuple::format::schema::ColumnKind;
use dolmen_rntuple::store::{Compare, Condition, CreateOptions, Damage, Number, When};
use dolmen_rntuple::{Entries, Error, Ntuple, Source, Want};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of an object, the number of the writing as a tag, and when it was.
type Written = (Vec<u8>, u64, u64);

/// What is done before something else.
pub(crate) struct Before(Box<dyn FnOnce() + Send>);

impl core::fmt::Debug for Before {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Before")
    }
}

/// What others do each time before the root is replaced.
pub(crate) struct Rival(Box<dyn FnMut() + Send>);

impl core::fmt::Debug for Rival {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Rival")
    }
}

/// Objects in memory.
#[derive(Debug)]
pub(crate) struct SimBucket {
    faults: Arc<Faults>,
    clock: SimClock,
    /// Whether the request from which on all are refused is carried out, and only its answer lost.
    pub(crate) loses_answers: bool,
    /// Answers to conditional writings that are yet to say that the condition did not hold, though it was done.
    pub(crate) denials: AtomicI64,
    /// Replacements of the root that are yet to be refused though nobody has changed it, as of some services while another one is under way.
    pub(crate) refusals: AtomicI64,
    /// Guards what others do in the next pause; not held while it is done.
    pub(crate) at_pause: Mutex<Option<Before>>,
    /// Whether conditions are not heeded.
    pub(crate) heeds_nothing: AtomicBool,
    /// Guards what is done when the root was replaced, before its answer is lost; not held while it is done.
    pub(crate) before_answer: Mutex<Option<Before>>,
    pub(crate) writes: AtomicU64,
    /// How long it takes to write an object with records.
    pub(crate) slow_ns: AtomicU64,
    /// Guards what others do each time before the root is replaced; not held while it is done.
    pub(crate) rival: Mutex<Option<Rival>>,
    /// Guards what was not completed; none if that is not told.
    pub(crate) uploads: Mutex<Option<Vec<Upload>>>,
    /// Guards how long was waited.
    pub(crate) pauses: Mutex<Vec<Duration>>,
    /// Guards keys and bytes of objects with records, but for those of the rival.
    pub(crate) records: Mutex<Vec<(String, usize)>>,
    /// Guards the objects.
    pub(crate) objects: Mutex<BTreeMap<String, Written>>,
}

impl SimBucket {
    pub(crate) fn new(faults: &Arc<Faults>, clock: &SimClock, loses_answers: bool) -> Self {
        Self {
            faults: Arc::clone(faults),
            clock: clock.clone(),
            loses_answers,
            denials: AtomicI64::new(0),
            refusals: AtomicI64::new(0),
            at_pause: Mutex::default(),
            heeds_nothing: AtomicBool::new(false),
            before_answer: Mutex::default(),
            writes: AtomicU64::new(0),
            slow_ns: AtomicU64::new(0),
            rival: Mutex::default(),
            pauses: Mutex::default(),
            uploads: Mutex::new(Some(Vec::new())),
            records: Mutex::default(),
            objects: Mutex::default(),
        }
    }

    /// Carries out what changes something, or not.
    fn change<T>(
        &self,
        doing: &'static str,
        act: impl FnOnce(&mut BTreeMap<String, Written>) -> T,
    ) -> BucketResult<T> {
        let was_cut = self.faults.is_cut();
        let refused = self.faults.refuses(true);
        if refused && (was_cut || !self.loses_answers) {
            return Err(failed(doing));
        }
        let done = act(&mut self.objects.lock().unwrap());
        if refused { Err(failed(doing)) } else { Ok(done) }
    }

    fn look(&self, doing: &'static str) -> BucketResult<()> {
        self.faults.round_trips.fetch_add(1, Ordering::Relaxed);
        if self.faults.refuses(false) { Err(failed(doing)) } else { Ok(()) }
    }

    fn tag(&self) -> u64 {
        self.writes.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Clusters, and objects with records that the root has.
    pub(crate) fn object_count(&self) -> usize {
        let objects = self.objects.lock().unwrap();
        let mut clusters: Vec<&str> = objects
            .keys()
            .filter_map(|key| key.strip_prefix("c/")?.split_once('/').map(|(number, _)| number))
            .collect();
        clusters.dedup();
        clusters.len() + objects.get("root").map_or(0, |(root, _, _)| nodes(root))
    }

    /// Bytes of all objects with pages.
    pub(crate) fn cluster_bytes(&self) -> usize {
        let objects = self.objects.lock().unwrap();
        objects.iter().filter(|(key, _)| key.starts_with("c/")).map(|(_, (bytes, _, _))| bytes.len()).sum()
    }
}

/// How many objects with records a root has.
fn nodes(root: &[u8]) -> usize {
    let length_bytes = u64::from_le_bytes(root[16..24].try_into().unwrap());
    let structure = dolmen_rntuple::Structure::Record;
    let packed = &root[24..root.len() - 8];
    let contents = dolmen_rntuple::format::block::decompress(structure, packed, length_bytes).unwrap();
    // Which store it is, how many transactions there were, the last ones, the next number, and how many nodes.
    let recent = u32::from_le_bytes(contents[24..28].try_into().unwrap()) as usize;
    let at = 28 + recent * 16 + 8;
    u32::from_le_bytes(contents[at..at + 4].try_into().unwrap()) as usize
}

fn failed(doing: &'static str) -> BucketError {
    BucketError { failure: Failure::Unreachable, doing, key: "".into(), source: "it was cut off".into() }
}

impl Bucket for SimBucket {
    fn address(&self) -> &str {
        "s3://sim"
    }

    fn get(&self, key: &str, known: Option<&Tag>) -> BucketResult<Got> {
        self.look("get")?;
        Ok(match self.objects.lock().unwrap().get(key) {
            None => Got::None,
            Some((_, tag, _)) if known.is_some_and(|known| *known.0 == *tag.to_string()) => Got::Same,
            Some((bytes, tag, _)) => Got::Bytes(bytes.clone(), Tag(tag.to_string().into())),
        })
    }

    fn read(&self, reads: &mut [Read<'_>]) -> BucketResult<Vec<u64>> {
        self.look("get")?;
        self.faults.fetches.fetch_add(reads.len() as u64, Ordering::Relaxed);
        let objects = self.objects.lock().unwrap();
        let read = |read: &mut Read<'_>| {
            let whole = objects.get(read.key).map_or(&[][..], |(bytes, _, _)| bytes);
            let there = usize::try_from(read.offset).ok().and_then(|at| whole.get(at..)).unwrap_or(&[]);
            let count = there.len().min(read.into.len());
            read.into[..count].copy_from_slice(&there[..count]);
            count as u64
        };
        Ok(reads.iter_mut().map(read).collect())
    }

    fn put(&self, puts: Vec<Put>) -> BucketResult<()> {
        for Put { key, bytes } in puts {
            if key.starts_with("m/") {
                self.clock.advance(self.slow_ns.load(Ordering::Relaxed));
                self.records.lock().unwrap().push((key.clone(), bytes.len()));
            }
            let (tag, now_ns) = (self.tag(), self.clock.now_ns());
            self.change("put", |objects| objects.insert(key, (bytes.to_vec(), tag, now_ns)))?;
        }
        Ok(())
    }

    fn replace(&self, key: &str, known: Option<&Tag>, bytes: Vec<u8>) -> BucketResult<Replaced> {
        self.faults.act_before_commit();
        let rival = if key == "root" { self.rival.lock().unwrap().take() } else { None };
        if let Some(Rival(mut act)) = rival {
            let before = self.records.lock().unwrap().clone();
            act();
            *self.records.lock().unwrap() = before;
            *self.rival.lock().unwrap() = Some(Rival(act));
        }
        let (tag, now_ns) = (self.tag(), self.clock.now_ns());
        if key == "root" && self.refusals.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(Replaced::Refused);
        }
        let done = self.change("put", |objects| {
            let there = objects.get(key).map(|(_, tag, _)| Tag(tag.to_string().into()));
            if there.as_ref() != known && !self.heeds_nothing.load(Ordering::Relaxed) {
                return None;
            }
            objects.insert(key.to_owned(), (bytes, tag, now_ns));
            Some(Tag(tag.to_string().into()))
        })?;
        let lost =
            (done.is_some() && key == "root").then(|| self.before_answer.lock().unwrap().take()).flatten();
        if let Some(Before(act)) = lost {
            act();
            return Ok(Replaced::Doubtful);
        }
        let is_denied = done.is_some() && self.denials.fetch_sub(1, Ordering::Relaxed) > 0;
        Ok(match done {
            Some(_) if is_denied => Replaced::Doubtful,
            Some(tag) => Replaced::Done(tag),
            None => Replaced::Refused,
        })
    }

    fn list(&self, prefix: &str) -> BucketResult<Vec<Object>> {
        self.look("list")?;
        let objects = self.objects.lock().unwrap();
        let of = |(key, (bytes, _, written_ns)): (&String, &Written)| Object {
            key: key.clone(),
            bytes: bytes.len() as u64,
            written_ns: *written_ns,
        };
        Ok(objects.iter().filter(|(key, _)| key.starts_with(prefix)).map(of).collect())
    }

    fn delete(&self, keys: Vec<String>) -> BucketResult<()> {
        for key in keys {
            self.change("delete", |objects| objects.remove(&key))?;
        }
        Ok(())
    }

    fn uploads(&self, prefix: &str) -> BucketResult<Vec<Upload>> {
        self.look("list")?;
        let uploads = self.uploads.lock().unwrap();
        let uploads = uploads.as_ref().ok_or_else(|| failed("list"))?;
        Ok(uploads.iter().filter(|upload| upload.key.starts_with(prefix)).cloned().collect())
    }

    fn abandon(&self, upload: &Upload) -> BucketResult<()> {
        self.change("delete", |_| ())?;
        self.uploads.lock().unwrap().as_mut().unwrap().retain(|other| other != upload);
        Ok(())
    }

    fn now_ns(&self) -> Option<u64> {
        Some(self.clock.now_ns())
    }

    fn pause(&self, time: Duration) {
        let before = self.pauses.lock().unwrap().clone();
        let meanwhile = self.at_pause.lock().unwrap().take();
        if let Some(Before(act)) = meanwhile {
            act();
        }
        *self.pauses.lock().unwrap() = before;
        self.pauses.lock().unwrap().push(time);
    }
}

fn keys(world: &World, prefix: &str) -> Vec<String> {
    let objects = world.bucket().objects.lock().unwrap();
    objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect()
}

#[test]
fn a_root_that_was_replaced_though_the_answer_says_otherwise_is_known_again() {
    let world = World::of(Kind::Bucket);
    world.bucket().denials.store(1000, Ordering::Relaxed);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    appender.push(&cluster(&stored, 0)).unwrap();
    assert_eq!(appender.commit().unwrap().number, 2);
    assert_eq!(world.store().ntuple("events").unwrap().versions().unwrap().len(), 2);
    assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..5).collect::<Vec<_>>());
}

#[test]
fn a_transaction_whose_answer_was_lost_is_found_though_others_were_done_after_it() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    appender.push(&cluster(&stored, 0)).unwrap();
    let other = world.another().ntuple("events").unwrap();
    let act = move || {
        for at in 1..5 {
            let mut appender = other.append().unwrap();
            appender.push(&cluster(&other, at * 5)).unwrap();
            appender.commit().unwrap();
        }
    };
    *world.bucket().before_answer.lock().unwrap() = Some(Before(Box::new(act)));
    assert_eq!(appender.commit().unwrap().number, 2);
    world.clock.advance(LEASE_NS * 2);
    stored.tag("kept", When::Now, false).unwrap();
    world.another().collect().unwrap();
    let stored = world.another().ntuple("events").unwrap();
    assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..25).collect::<Vec<_>>());
    for version in stored.versions().unwrap() {
        let ntuple = stored.open(When::Version(version.number)).unwrap();
        assert_eq!(ntuple.entry_count(), (version.number - 1) * 5);
        assert!(stored.scrub(When::Version(version.number), |_| ()).unwrap().bad.is_empty());
    }
    // What is refused where it was done before is not done again.
    let other = world.another().ntuple("events").unwrap();
    let act = move || {
        for _ in 0..3 {
            other.tag("moved", When::Now, true).unwrap();
        }
    };
    *world.bucket().before_answer.lock().unwrap() = Some(Before(Box::new(act)));
    stored.tag("sure", When::Version(3), false).unwrap();
    assert_eq!(stored.version(When::Tag("sure")).unwrap().number, 3);
    // So many that the root does not name it any more: it may have been done, and nothing of it is taken away.
    let other = world.another().ntuple("events").unwrap();
    let act = move || {
        for _ in 0..70 {
            other.tag("moved", When::Now, true).unwrap();
        }
    };
    *world.bucket().before_answer.lock().unwrap() = Some(Before(Box::new(act)));
    let found = stored.tag("doubtful", When::Version(3), false);
    assert!(
        matches!(&found, Err(Error::Bucket { source }) if source.failure == Failure::Doubtful),
        "{found:?}"
    );
    assert_eq!(stored.version(When::Tag("doubtful")).unwrap().number, 3);
    assert!(stored.scrub(When::Tag("doubtful"), |_| ()).unwrap().bad.is_empty());
}

#[test]
fn an_append_whose_answers_were_lost_is_not_done_twice_by_who_commits_again() {
    for kind in [Kind::Bucket, Kind::Forgetful] {
        let world = World::of(kind);
        let stored = two_columns(&world);
        let mut appender = stored.append().unwrap();
        appender.push(&cluster(&stored, 0)).unwrap();
        appender.commit().unwrap();
        appender.push(&cluster(&stored, 5)).unwrap();
        // Cut off at each request in turn, until the commit was carried out and its answer lost, or was answered.
        for count in 0.. {
            world.faults.after(count);
            let done = appender.commit();
            world.faults.heal();
            match done {
                Ok(_) => break,
                // Pages that were not written are in no version, however often it is committed.
                Err(_) => match appender.commit() {
                    Ok(_) => break,
                    Err(error) => {
                        assert!(matches!(error, Error::Lost), "{error:?}");
                        appender = stored.append().unwrap();
                        appender.push(&cluster(&stored, 5)).unwrap();
                    }
                },
            }
        }
        assert_eq!(all_ints(&stored.open(When::Now).unwrap(), "a"), (0..10).collect::<Vec<_>>());
        let mut appender = world.another().ntuple("events").unwrap().append().unwrap();
        appender.push(&cluster(&stored, 10)).unwrap();
        assert_eq!(appender.commit().unwrap().entry_count, 15);
    }
}

#[test]
fn nothing_is_cloned_of_an_ntuple_of_another_store() {
    for (one, other) in
        [(Kind::Bucket, Kind::Bucket), (Kind::Container, Kind::Bucket), (Kind::Bucket, Kind::Container)]
    {
        let (one, other) = (World::of(one), World::of(other));
        let (stored, _) = (two_columns(&one), two_columns(&other));
        let found = other.store().clone_fields(&stored, When::Now, &[], "clone");
        assert!(matches!(found, Err(Error::OtherStore)), "{found:?}");
        one.another().clone_fields(&stored, When::Now, &[], "clone").unwrap();
    }
}

#[test]
fn an_endpoint_that_heeds_no_conditions_is_found_out_before_anything_is_written() {
    let world = World::of(Kind::Bucket);
    world.bucket().heeds_nothing.store(true, Ordering::Relaxed);
    let schema = header("events", &[("a", ColumnKind::Int32)]);
    let found = world.store().create(&schema, &CreateOptions::default());
    assert!(
        matches!(&found, Err(Error::Bucket { source }) if source.failure == Failure::Refused),
        "{found:?}"
    );
    assert_eq!(keys(&world, ""), ["conditions"]);
}

#[test]
fn clusters_without_a_root_are_no_store_and_nothing_is_done_to_them() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    appender.push(&cluster(&stored, 0)).unwrap();
    appender.commit().unwrap();
    let root = world.bucket().objects.lock().unwrap().remove("root").unwrap();
    let before = keys(&world, "");
    let schema = header("other", &[("a", ColumnKind::Int32)]);
    for store in [world.another(), stored.store().clone()] {
        let refused = [
            store.list().map(drop),
            store.collect().map(drop),
            store.create(&schema, &CreateOptions::default()).map(drop),
        ];
        for found in refused {
            assert!(
                matches!(&found, Err(Error::Bucket { source }) if source.failure == Failure::Refused),
                "{found:?}"
            );
        }
    }
    assert_eq!(keys(&world, ""), before);
    world.bucket().objects.lock().unwrap().insert("root".into(), root);
    assert_eq!(
        all_ints(&world.another().open("events", When::Now).unwrap(), "a"),
        (0..5).collect::<Vec<_>>()
    );
}

#[test]
fn what_is_not_of_the_form_of_a_stores_own_objects_is_left_alone() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let foreign = [
        "c/notes",
        "c/0000000000000002/7",
        "c/0000000000000002/root",
        "m/c/0000000000000002/00000000",
        "m/m/00000000000000000000000000000001",
        "m/root",
        "m/0000000000000000000000000000000g",
        "rootless",
    ];
    for key in foreign {
        let written = (b"foreign".to_vec(), 0, 1);
        world.bucket().objects.lock().unwrap().insert(key.into(), written);
    }
    world.clock.advance(LEASE_NS * 2);
    stored.tag("kept", When::Now, false).unwrap();
    world.another().collect().unwrap();
    world.another().destroy("events").unwrap();
    let left = keys(&world, "");
    for key in foreign {
        assert!(left.iter().any(|left| left == key), "{key}");
    }
}

#[test]
fn a_name_that_is_too_long_for_a_key_is_refused() {
    let world = World::of(Kind::Bucket);
    let schema = header(&"n".repeat(1 << 16), &[("a", ColumnKind::Int32)]);
    let found = world.store().create(&schema, &CreateOptions::default());
    assert!(
        matches!(&found, Err(Error::Store { source: dolmen_types::Error::KeyTooBig { .. } })),
        "{found:?}"
    );
}

#[test]
fn of_a_lost_group_nothing_is_put_right_that_would_leave_zeros_between() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    appender.push(&cluster(&stored, 0)).unwrap();
    appender.commit().unwrap();
    let copies = World::of(Kind::Container);
    copies.store().import("events", &stored.open(When::Now).unwrap(), &CreateOptions::default()).unwrap();
    let copy = copies.store().open("events", When::Now).unwrap();
    let group = keys(&world, "c/");
    world.bucket().objects.lock().unwrap().retain(|key, _| !group.contains(key));
    let bad = stored.scrub(When::Now, |_| ()).unwrap().bad;
    assert!(bad.len() > 1);
    // The first page is not among what is known.
    assert!(stored.repair(&bad[1..], &copy).unwrap().iter().all(|is_right| !is_right));
    assert!(keys(&world, "c/").is_empty());
    assert_eq!(stored.repair(&bad, &copy).unwrap(), vec![true; bad.len()]);
    assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
}

#[test]
fn what_transactions_left_is_swept_away_when_none_can_be_under_way_any_more() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    stored.keep(0).unwrap();
    // A list of as many clusters as a list has, which no version writes anew, and too long to be in a node.
    for clusters in [64, 1, 1, 1, 1, 1] {
        let mut appender = stored.append().unwrap();
        for _ in 0..clusters {
            appender.push(&cluster(&stored, 0)).unwrap();
        }
        appender.commit().unwrap();
    }
    let before = keys(&world, "m/").len();
    assert!(before > 12, "{before}");
    world.store().collect().unwrap();
    assert!(keys(&world, "m/").len() >= before, "it may be of transactions under way");
    world.clock.advance(LEASE_NS * 2);
    // The clock of the store is that of its newest root.
    stored.tag("kept", When::Now, false).unwrap();
    world.another().collect().unwrap();
    let after = keys(&world, "m/").len();
    assert!(after < 8, "{after} of {before}");
    let scrubbed = world.another().ntuple("events").unwrap().scrub(When::Now, |_| ()).unwrap();
    assert!(scrubbed.pages > 69 && scrubbed.bad.is_empty(), "{scrubbed:?}");
    world.another().destroy("events").unwrap();
    assert_eq!(world.object_count(), 0);
}

#[test]
fn a_reader_whose_root_is_old_reads_what_it_opened_and_another_reads_on_past_what_was_swept() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    stored.keep(0).unwrap();
    let (other, before) = (world.another(), stored.open(When::Now).unwrap());
    assert_eq!(other.list().unwrap().len(), 1);
    for at in 0..3 {
        let mut appender = stored.append().unwrap();
        appender.push(&cluster(&stored, at * 5)).unwrap();
        appender.commit().unwrap();
        world.clock.advance(LEASE_NS * 2);
        stored.keep(0).unwrap();
        world.store().collect().unwrap();
    }
    assert_eq!(before.entry_count(), 0);
    assert_eq!(all_ints(&other.open("events", When::Now).unwrap(), "a"), (0..15).collect::<Vec<_>>());
}

#[test]
fn transactions_of_many_are_all_done_and_each_version_is_of_one() {
    let world = World::of(Kind::Bucket);
    two_columns(&world);
    dolmen_env::scope(|scope| {
        for at in 0..4 {
            let store = world.another();
            scope.spawn(move || {
                let stored = store.ntuple("events").unwrap();
                for turn in 0..5 {
                    let mut appender = stored.append().unwrap();
                    appender.push(&cluster(&stored, at * 100 + turn * 5)).unwrap();
                    appender.commit().unwrap();
                }
            });
        }
    });
    let stored = world.another().ntuple("events").unwrap();
    assert_eq!(stored.versions().unwrap().len(), 21);
    let mut found = all_ints(&stored.open(When::Now).unwrap(), "a");
    found.sort_unstable();
    let wanted = (0..4).flat_map(|at| at * 100..at * 100 + 25);
    assert_eq!(found, wanted.collect::<Vec<_>>());
}

#[test]
fn between_stores_of_all_kinds_pages_go_as_they_are_with_what_is_known_of_them() {
    let kinds = [Kind::Bucket, Kind::Container, Kind::Bucket, Kind::Bucket];
    let mut from = World::of(Kind::Container);
    let stored = two_columns(&from);
    let mut appender = stored.append().unwrap();
    for at in 0..3 {
        appender.push(&cluster(&stored, at * 5)).unwrap();
    }
    appender.commit().unwrap();
    let wanted = pages(&stored.open(When::Now).unwrap());
    for kind in kinds {
        let to = World::of(kind);
        let ntuple = from.store().open("events", When::Now).unwrap();
        // Who does not look at pages has zones all the same.
        let options = CreateOptions { measures: false, ..CreateOptions::default() };
        to.store().import("events", &ntuple, &options).unwrap();
        let moved = to.store().open("events", When::Now).unwrap();
        assert_eq!(pages(&moved), wanted);
        let condition =
            Condition { field: "a".into(), compare: Compare::GreaterOrEqual, number: Number::Signed(10) };
        assert_eq!(
            moved.prune(&[condition], Entries { first: 0, end: 15 }).unwrap(),
            [Entries { first: 10, end: 15 }]
        );
        from = to;
    }
}

/// Bytes of all pages.
fn pages<S: Source>(ntuple: &Ntuple<S>) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for cluster in ntuple.all_clusters().unwrap() {
        for page in
            &cluster.list.pages[cluster.pages.columns[0].pages.start..cluster.pages.columns[1].pages.end]
        {
            let mut into = vec![0; usize::try_from(page.locator.bytes()).unwrap()];
            ntuple.source().fetch(&mut [Want { locator: page.locator, into: &mut into }]).unwrap();
            found.push(into);
        }
    }
    found
}

#[test]
fn a_damaged_or_lost_group_is_found_and_put_right_from_a_copy() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    appender.push(&cluster(&stored, 0)).unwrap();
    appender.push(&cluster(&stored, 5)).unwrap();
    appender.commit().unwrap();
    let copies = World::of(Kind::Container);
    copies.store().import("events", &stored.open(When::Now).unwrap(), &CreateOptions::default()).unwrap();
    let ntuple = stored.open(When::Now).unwrap();
    let clusters = ntuple.clusters(Entries { first: 0, end: 10 }).unwrap();
    let Locator::Stored { object, group, offset, .. } = clusters[0].list.pages[0].locator else { panic!() };
    let Locator::Stored { object: lost, group: lost_group, .. } =
        clusters[1].list.pages[clusters[1].pages.columns[0].pages.start].locator
    else {
        panic!()
    };
    {
        let mut objects = world.bucket().objects.lock().unwrap();
        let damaged = objects.get_mut(&format!("c/{object:016x}/{group:08x}")).unwrap();
        damaged.0[usize::try_from(offset).unwrap()] ^= 1;
        objects.remove(&format!("c/{lost:016x}/{lost_group:08x}")).unwrap();
    }
    let bad = stored.scrub(When::Now, |_| ()).unwrap().bad;
    assert_eq!(bad[0].damage, Damage::Checksum);
    assert!(bad.len() > 2 && bad[1..].iter().all(|bad| bad.damage == Damage::Missing), "{bad:?}");
    let copy = copies.store().open("events", When::Now).unwrap();
    let repaired = stored.repair(&bad, &copy).unwrap();
    assert!(repaired.iter().all(|is_right| *is_right));
    assert!(stored.scrub(When::Now, |_| ()).unwrap().bad.is_empty());
}

#[test]
fn an_error_of_a_bucket_says_what_was_asked_of_which_store_and_what_to_do() {
    let world = World::of(Kind::Bucket);
    world.faults.after(-1);
    let error = world.store().list().unwrap_err();
    assert!(
        matches!(&error, Error::Bucket { source } if source.failure == Failure::Unreachable),
        "{error:?}"
    );
    assert!(error.to_string().contains("AWS_ENDPOINT_URL"), "{error}");
}

/// Has another store do something each time before the root is replaced, so many times.
fn rival(world: &World, times: usize, mut act: impl FnMut(usize) + Send + 'static) {
    world.bucket().pauses.lock().unwrap().clear();
    world.bucket().records.lock().unwrap().clear();
    let mut at = 0;
    let act = move || {
        if at < times {
            at += 1;
            act(at);
        }
    };
    *world.bucket().rival.lock().unwrap() = Some(Rival(Box::new(act)));
}

/// An ntuple beside another.
fn two_ntuples(world: &World) -> [dolmen_rntuple::store::Stored; 2] {
    let schema = header("other", &[("a", ColumnKind::SplitInt32), ("b", ColumnKind::Int32)]);
    [two_columns(world), world.another().create(&schema, &CreateOptions::default()).unwrap()]
}

#[test]
fn what_was_written_is_written_once_however_often_others_change_another_ntuple_meanwhile() {
    let world = World::of(Kind::Bucket);
    let [stored, other] = two_ntuples(&world);
    let theirs = other.clone();
    rival(&world, 40, move |_| {
        theirs.tag("moved", When::Now, true).unwrap();
    });
    stored.tag("mine", When::Now, false).unwrap();
    assert_eq!(world.bucket().records.lock().unwrap().len(), 1);
    let pauses = world.bucket().pauses.lock().unwrap().clone();
    assert_eq!(pauses.len(), 40);
    for (at, pause) in (1_u32..).zip(&pauses) {
        let longest_ms = if at > 8 { 80 } else { 300.min(20 << at) };
        assert!(*pause <= Duration::from_millis(longest_ms), "{at}: {pause:?}");
    }
    assert!(pauses.iter().any(|pause| *pause > Duration::from_millis(20)), "they grow: {pauses:?}");
    assert!(pauses[20..].iter().any(|pause| *pause != pauses[20]), "they are drawn: {pauses:?}");
    let store = world.another();
    assert_eq!(store.ntuple("events").unwrap().version(When::Tag("mine")).unwrap().number, 1);
    assert_eq!(store.ntuple("other").unwrap().version(When::Tag("moved")).unwrap().number, 1);
}

#[test]
fn of_those_who_append_to_different_ntuples_each_writes_its_own_once_and_nothing_is_left() {
    let world = World::of(Kind::Bucket);
    let [stored, other] = two_ntuples(&world);
    let mut appender = stored.append().unwrap();
    for _ in 0..64 {
        appender.push(&cluster(&stored, 0)).unwrap();
    }
    let theirs = other.clone();
    // They, too, change who is writing: what they have begun with stays.
    let mut begun = Vec::new();
    rival(&world, 5, move |at| {
        let mut appender = theirs.append().unwrap();
        appender.push(&cluster(&theirs, i32::try_from(at).unwrap() * 5)).unwrap();
        appender.commit().unwrap();
        appender.push(&cluster(&theirs, 0)).unwrap();
        begun.push(appender);
    });
    assert_eq!(appender.commit().unwrap().entry_count, 320);
    let records = world.bucket().records.lock().unwrap().clone();
    let whole = records.iter().filter(|(_, bytes)| *bytes > 1000).count();
    assert_eq!((whole, records.len()), (1, 6), "{records:?}");
    let left: Vec<_> = records.iter().filter(|(key, _)| keys(&world, "m/").contains(key)).collect();
    assert_eq!(left.len(), 2, "what it wrote first, and who is writing: {left:?}");
    *world.bucket().rival.lock().unwrap() = None;
    let store = world.another();
    assert_eq!(all_ints(&store.open("events", When::Now).unwrap(), "a").len(), 320);
    assert_eq!(all_ints(&store.open("other", When::Now).unwrap(), "a"), (5..30).collect::<Vec<_>>());
    world.clock.advance(LEASE_NS + TICK_NS);
    assert_eq!(store.collect().unwrap().writers, 5, "those who have begun, and nobody else");
}

#[test]
fn what_others_have_changed_of_what_was_read_is_read_again() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    appender.push(&cluster(&stored, 100)).unwrap();
    let theirs = world.another().ntuple("events").unwrap();
    rival(&world, 3, move |at| {
        let mut appender = theirs.append().unwrap();
        appender.push(&cluster(&theirs, i32::try_from(at).unwrap() * 5)).unwrap();
        appender.commit().unwrap();
    });
    assert_eq!(appender.commit().unwrap().number, 5);
    *world.bucket().rival.lock().unwrap() = None;
    let found = all_ints(&world.another().open("events", When::Now).unwrap(), "a");
    assert_eq!(found, (5..20).chain(100..105).collect::<Vec<_>>());
    // Of several names of which each is to be the only one, one is.
    let theirs = stored.clone();
    rival(&world, 1, move |_| {
        theirs.tag("one", When::Version(1), false).unwrap();
    });
    let found = stored.tag("one", When::Now, false);
    assert!(matches!(found, Err(Error::Exists { .. })), "{found:?}");
    assert_eq!(stored.version(When::Tag("one")).unwrap().number, 1);
}

#[test]
fn who_is_never_the_first_is_told_so_and_leaves_nothing() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let theirs = world.another().ntuple("events").unwrap();
    let clock = world.clock.clone();
    rival(&world, usize::MAX, move |at| {
        theirs.keep(at as u64).unwrap();
        clock.advance(LEASE_NS / 240);
    });
    let found = stored.keep(u64::MAX);
    assert!(matches!(found, Err(Error::Contended { tries: 64 })), "{found:?}");
    assert!(found.unwrap_err().to_string().contains("try again"));
    *world.bucket().rival.lock().unwrap() = None;
    let there = keys(&world, "m/");
    let records = world.bucket().records.lock().unwrap().clone();
    assert!(records.len() > 1 && records.iter().all(|(key, _)| !there.contains(key)));
    stored.keep(5).unwrap();
}

#[test]
fn who_has_not_waited_for_long_goes_on_however_often_others_were_faster() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let theirs = world.another().ntuple("events").unwrap();
    rival(&world, 1000, move |at| theirs.keep(at as u64).unwrap());
    stored.keep(u64::MAX).unwrap();
    assert_eq!(world.bucket().pauses.lock().unwrap().len(), 1000);
}

#[test]
fn nothing_is_in_doubt_of_which_no_answer_was_lost_however_many_others_were_done_meanwhile() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let theirs = world.another().ntuple("events").unwrap();
    rival(&world, 1, move |_| {
        for _ in 0..70 {
            theirs.tag("moved", When::Now, true).unwrap();
        }
    });
    stored.tag("one", When::Now, false).unwrap();
    // Nor where the root was the same at first.
    let theirs = world.another().ntuple("events").unwrap();
    let act = move || {
        for _ in 0..70 {
            theirs.tag("moved", When::Now, true).unwrap();
        }
    };
    *world.bucket().at_pause.lock().unwrap() = Some(Before(Box::new(act)));
    world.bucket().refusals.store(1, Ordering::Relaxed);
    stored.tag("two", When::Now, false).unwrap();
    for tag in ["one", "two"] {
        assert_eq!(world.another().ntuple("events").unwrap().version(When::Tag(tag)).unwrap().number, 1);
    }
}

#[test]
fn what_others_have_swept_away_while_the_machine_slept_is_written_anew() {
    // It falls asleep before the root is replaced, or while it waits to try again.
    for is_in_pause in [false, true] {
        let world = World::of(Kind::Bucket);
        let [stored, other] = two_ntuples(&world);
        let (clock, store) = (world.clock.clone(), world.another());
        let suspend = {
            let other = other.clone();
            move || {
                // The machine's clock that only goes on stands still meanwhile.
                clock.step_to(clock.now_ns() + LEASE_NS * 2);
                other.tag("moved", When::Now, true).unwrap();
                store.collect().unwrap();
            }
        };
        if is_in_pause {
            rival(&world, 1, move |_| {
                other.tag("moved", When::Now, true).unwrap();
            });
            *world.bucket().at_pause.lock().unwrap() = Some(Before(Box::new(suspend)));
        } else {
            rival(&world, 1, move |_| suspend());
        }
        stored.tag("mine", When::Now, false).unwrap();
        let store = world.another();
        assert_eq!(store.ntuple("events").unwrap().version(When::Tag("mine")).unwrap().number, 1);
        let mut appender = store.ntuple("events").unwrap().append().unwrap();
        appender.push(&cluster(&stored, 0)).unwrap();
        appender.commit().unwrap();
        assert_eq!(all_ints(&store.open("events", When::Now).unwrap(), "a"), (0..5).collect::<Vec<_>>());
    }
}

#[test]
fn who_writes_for_longer_than_it_is_left_is_told_so_and_leaves_nothing() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let before = keys(&world, "m/");
    world.bucket().slow_ns.store(LEASE_NS / 2 + 1, Ordering::Relaxed);
    let found = stored.tag("one", When::Now, false);
    assert!(matches!(found, Err(Error::Slow { lease_ns: LEASE_NS })), "{found:?}");
    assert_eq!(keys(&world, "m/"), before);
    world.bucket().slow_ns.store(LEASE_NS / 2, Ordering::Relaxed);
    stored.tag("one", When::Now, false).unwrap();
}

#[test]
fn what_was_never_completed_is_ended_but_what_somebody_may_be_writing_still_and_what_others_have() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    appender.push(&cluster(&stored, 0)).unwrap();
    // The second number that was drawn: the first is that of the ntuple.
    let writers: Vec<u64> = vec![66, 129];
    let upload = |key: String, begun_ns| Upload { key, id: "1".into(), begun_ns };
    let now_ns = world.clock.now_ns();
    let mut uploads = vec![
        upload("m/00000000000000000000000000000001".into(), now_ns),
        upload("c/0000000000000002/00000000".into(), now_ns),
        upload("c/0000000000000002/00000001".into(), now_ns + LEASE_NS),
        upload("c/0000000000000002/foreign".into(), now_ns),
        upload("m/root".into(), now_ns),
        upload("other".into(), now_ns),
    ];
    for writer in writers {
        uploads.push(upload(format!("c/{writer:016x}/00000000"), now_ns));
    }
    *world.bucket().uploads.lock().unwrap() = Some(uploads.clone());
    world.clock.advance(LEASE_NS - 1);
    assert_eq!(world.another().collect().unwrap().uploads, 0, "they may be under way");
    appender.push(&cluster(&stored, 5)).unwrap();
    world.clock.advance(2);
    assert_eq!(world.another().collect().unwrap().uploads, 2);
    assert_eq!(world.bucket().uploads.lock().unwrap().as_ref().unwrap()[..], uploads[2..]);
    appender.commit().unwrap();
    assert_eq!(world.another().collect().unwrap().uploads, 2, "nobody writes them any more");
    *world.bucket().uploads.lock().unwrap() = None;
    assert_eq!(world.another().collect().unwrap().uploads, 0, "it is not told");
}

#[test]
fn an_append_writes_as_much_however_many_there_were_before() {
    let world = World::of(Kind::Bucket);
    let stored = two_columns(&world);
    let mut appender = stored.append().unwrap();
    let some = cluster(&stored, 0);
    let mut bytes = Vec::new();
    for _ in 0..640 {
        appender.push(&some).unwrap();
        world.bucket().records.lock().unwrap().clear();
        appender.commit().unwrap();
        bytes.push(world.bucket().records.lock().unwrap().iter().map(|(_, bytes)| bytes).sum::<usize>());
    }
    // A list has 64 clusters, and is written anew with each.
    let of = |lists: core::ops::Range<usize>| bytes[lists.start * 64..lists.end * 64].iter().sum::<usize>();
    let (early, late) = (of(1..4), of(7..10));
    assert!(late * 10 < early * 12, "{early} bytes of 192 appends, {late} later");
    let store = world.another();
    assert_eq!(store.open("events", When::Now).unwrap().entry_count(), 3200);
    let events = store.ntuple("events").unwrap();
    for version in [1, 2, 100, 400, 641] {
        let ntuple = events.open(When::Version(version)).unwrap();
        assert_eq!(all_ints(&ntuple, "a").len() as u64, (version - 1) * 5);
    }
    // What leaves refer to, and leaves, are there after all else was swept away, and when most versions are gone.
    events.tag("kept", When::Version(300), false).unwrap();
    for keep_ns in [u64::MAX / 2, 0] {
        events.keep(keep_ns).unwrap();
        world.clock.advance(LEASE_NS * 2);
        events.tag("now", When::Now, true).unwrap();
        world.another().collect().unwrap();
        let events = world.another().ntuple("events").unwrap();
        assert_eq!(events.versions().unwrap().len(), if keep_ns == 0 { 2 } else { 641 });
        assert_eq!(all_ints(&events.open(When::Tag("kept")).unwrap(), "a").len(), 1495);
        assert_eq!(all_ints(&events.open(When::Now).unwrap(), "a").len(), 3200);
    }
}
