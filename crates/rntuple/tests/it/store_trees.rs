//! Trees that are imported: as fields with the same values, in clusters, or not at all.

use crate::made::value;
use crate::store_world::{LEASE_NS, World};
use crate::tree_made::{Branch, How, branch, element, leaf};
use crate::trees::{HOW, all, entry, tree};
use dolmen_rntuple::rootfile::tree::Tree;
use dolmen_rntuple::store::{CreateOptions, Fill, Made, TreeOptions, When};
use dolmen_rntuple::write::Options;
use dolmen_rntuple::{Entries, Error, Fit, Refusal, Result};

/// Entries of the trees here.
pub(crate) const COUNT: u64 = 100;

fn four(name: &'static str) -> Branch {
    let entries = (0..COUNT as u32).map(|at| entry(|big| big.u32(at * 3))).collect();
    branch(name, vec![leaf("TLeafI", "i")], entries)
}

fn vectors(name: &'static str) -> Branch {
    let vector = |at: u64| {
        let len = at % 4;
        entry(|big| {
            big.counted(9, |big| {
                big.u32(len as u32);
                (0..len).for_each(|item| big.u32((at * 10 + item) as u32));
            });
        })
    };
    element(name, ("vector<int>", 0, -1, 0), (0..COUNT).map(vector).collect())
}

/// A branch that is not read.
fn unknown(name: &'static str) -> Branch {
    branch(name, vec![leaf("TLeafQ", "q")], vec![vec![0]; COUNT as usize])
}

pub(crate) fn of(branches: &[Branch]) -> Tree {
    tree(branches, &[], How { entries_of_a_basket: 10, ..HOW })
}

pub(crate) fn two_branches() -> Tree {
    of(&[four("run.number."), vectors("hits[n]")])
}

pub(crate) fn how() -> TreeOptions {
    TreeOptions {
        branches: None,
        leaves_out: false,
        write: Options { cluster_bytes: 700, ..Options::default() },
    }
}

fn named(names: &[&str]) -> TreeOptions {
    TreeOptions { branches: Some(names.iter().map(|&name| name.into()).collect()), ..how() }
}

#[test]
fn a_tree_is_imported_in_clusters_of_whole_baskets_with_the_values_that_it_has() {
    World::each(|world| {
        let (tree, store) = (two_branches(), world.store());
        let mut told = Vec::new();
        let options = CreateOptions::default();
        let made = store.import_tree("made", &tree, &how(), &options, |entries| told.push(entries)).unwrap();
        assert_eq!((made.version.entry_count, made.version.made), (COUNT, Made::Imported));
        assert!(made.left_out.is_empty());
        let renamed = [("run.number.".into(), "run_number".into()), ("hits[n]".into(), "hits".into())];
        assert_eq!(made.renamed, renamed);
        let stored = store.open("made", When::Now).unwrap();
        let all_entries = Entries { first: 0, end: COUNT };
        for (branch, field, type_name) in
            [("run.number.", "run_number", "std::int32_t"), ("hits[n]", "hits", "std::vector<std::int32_t>")]
        {
            let number = stored.field(field).unwrap();
            assert_eq!(&*stored.header().schema.fields[number as usize].type_name, type_name);
            let found = stored.read(&[number], all_entries).unwrap().remove(0);
            assert_eq!(found, all(&tree, branch).unwrap(), "{field}");
        }
        assert_eq!((&*stored.header().name, &*stored.header().description), ("made", "what happened"));
        let clusters = stored.all_clusters().unwrap();
        let ends: Vec<u64> =
            clusters.iter().map(|cluster| cluster.pages.first_entry + cluster.pages.entry_count).collect();
        assert_eq!(ends, told);
        assert!(ends.len() > 3 && ends.iter().all(|end| end % 10 == 0), "{ends:?}");
    });
}

#[test]
fn a_skim_of_a_tree_has_the_entries_of_its_ranges_put_together_in_clusters() {
    let range = |(first, end)| Entries { first, end };
    World::each(|world| {
        let (tree, store, options) = (two_branches(), world.store(), CreateOptions::default());
        let few: Vec<_> = (0..COUNT).step_by(3).map(|at| (at, at + 1)).collect();
        for (nth, wanted) in
            [&[][..], &[(0, COUNT)], &[(5, 6), (7, 7), (8, 61), (99, 100)], &few].into_iter().enumerate()
        {
            let (name, ranges) = (format!("of-{nth}"), wanted.iter().copied().map(range).collect::<Vec<_>>());
            let made = store.skim_tree(&name, (&tree, &ranges), &how(), &options, |_| ()).unwrap();
            let entries: Vec<u64> = wanted.iter().flat_map(|&(first, end)| first..end).collect();
            let count = entries.len() as u64;
            assert_eq!((made.version.entry_count, made.version.made), (count, Made::Skimmed));
            let stored = store.open(&name, When::Now).unwrap();
            let numbers = [stored.field("run_number").unwrap(), stored.field("hits").unwrap()];
            let read = stored.read(&numbers, range((0, count))).unwrap();
            let (run, hits) = (all(&tree, "run.number.").unwrap(), all(&tree, "hits[n]").unwrap());
            for (nth, &entry) in entries.iter().enumerate() {
                let entry = usize::try_from(entry).unwrap();
                assert_eq!(value(&read[0], nth), value(&run, entry));
                assert_eq!(value(&read[1], nth), value(&hits, entry));
            }
            // Entries of several steps are one cluster.
            assert!(stored.all_clusters().unwrap().len() as u64 <= count / 20 + 3);
        }
        for wrong in [&[(0, COUNT + 1)][..], &[(5, 9), (8, 10)]] {
            let ranges: Vec<_> = wrong.iter().copied().map(range).collect();
            let found = store.skim_tree("wrong", (&tree, &ranges), &how(), &options, |_| ());
            assert!(matches!(found, Err(Error::NoEntries { .. })));
        }
    });
}

#[test]
fn what_is_not_read_of_a_tree_is_refused_by_name_or_left_out_if_that_is_asked_for() {
    let world = World::any();
    let (store, options) = (world.store(), CreateOptions::default());
    let tree = of(&[four("i"), unknown("q"), vectors("v")]);
    let import = |how: &TreeOptions| store.import_tree("made", &tree, how, &options, |_| ());
    let is_q = |error: &Error| matches!(error, Error::BranchRefused { branch, why: Refusal::Leaf, .. } if &**branch == "q");
    assert!(is_q(&import(&how()).unwrap_err()));
    assert!(is_q(&import(&named(&["i", "q"])).unwrap_err()));
    let only_q = TreeOptions { leaves_out: true, ..named(&["q"]) };
    assert!(is_q(&import(&only_q).unwrap_err()), "an ntuple of nothing is none");
    assert!(
        matches!(import(&named(&["i", "none"])), Err(Error::NoField { name, near: None }) if &*name == "none")
    );
    let twice = import(&named(&["i", "i"]));
    assert!(matches!(twice, Err(Error::NoFit { field, fit: Fit::Twice }) if &*field == "i"));
    assert!(store.list().unwrap().is_empty());
    let made = import(&TreeOptions { leaves_out: true, ..how() }).unwrap();
    assert!(matches!(&made.left_out[..], [error] if is_q(error)));
    let stored = store.open("made", When::Now).unwrap();
    assert_eq!(
        stored.header().schema.fields.iter().map(|field| &*field.name).collect::<Vec<_>>(),
        ["i", "v", "_0"]
    );
    assert!(matches!(import(&named(&["i"])), Err(Error::Exists { .. })));
    let none = of(&[]);
    let found = store.import_tree("none", &none, &how(), &options, |_| ());
    assert!(matches!(found, Err(Error::BranchRefused { why: Refusal::NoBranch, .. })));
}

#[test]
fn branches_are_named_as_they_are_or_as_their_fields_and_almost_so_they_are_told() {
    let world = World::any();
    let (store, tree) = (world.store(), of(&[four("run.number."), vectors("hits[n]"), four("run_number")]));
    let import = |name: &str, branches: &[&str]| {
        store.import_tree(name, &tree, &named(branches), &CreateOptions::default(), |_| ())
    };
    assert_eq!(import("a", &["hits"]).unwrap().renamed, [("hits[n]".into(), "hits".into())]);
    assert!(import("b", &["run_number"]).unwrap().renamed.is_empty(), "a branch of that name is it");
    for (wrong, near) in [("hit[n]", "hits[n]"), ("run.numbre", "run.number."), ("RUN_NUMBER", "run_number")]
    {
        let error = import("c", &["hits", wrong]).unwrap_err();
        assert!(matches!(error, Error::NoField { .. }), "{error:?}");
        assert!(error.to_string().ends_with(&format!("\"{wrong}\"; \"{near}\" is one")), "{error}");
    }
}

#[test]
fn who_is_told_of_progress_can_end_an_import_and_nothing_stays() {
    World::each(|world| {
        let (store, options) = (world.store(), CreateOptions::default());
        let before = world.object_count();
        let tell = |entries: u64| -> Result<()> { if entries < 50 { Ok(()) } else { Err(Error::Stopped) } };
        let found = store.import_tree("made", &two_branches(), &how(), &options, tell);
        assert!(matches!(found, Err(Error::Stopped)));
        assert!(store.list().unwrap().is_empty());
        world.clock.advance(LEASE_NS * 2);
        store.collect().unwrap();
        assert_eq!(world.object_count(), before);
    });
}

#[test]
fn a_tree_is_appended_of_the_branches_that_are_fields_the_others_named_or_left_out() {
    World::each(|world| {
        let (store, tree) = (world.store(), two_branches());
        store.import_tree("made", &tree, &how(), &CreateOptions::default(), |_| ()).unwrap();
        let stored = store.ntuple("made").unwrap();
        let mut appender = stored.append().unwrap();
        let write = Options { cluster_bytes: 700, ..Options::default() };
        appender.fill(Vec::new(), &write);
        let mut told = Vec::new();
        assert!(appender.check_tree(&tree).unwrap().is_empty());
        appender.push_tree(&tree, |entries| told.push(entries)).unwrap();
        assert!(told.len() > 3 && told.iter().all(|end| end % 10 == 0), "{told:?}");
        assert_eq!(appender.commit().unwrap().entry_count, 2 * COUNT);
        let read = |name: &str, first: u64| {
            let ntuple = stored.open(When::Now).unwrap();
            let range = Entries { first, end: first + COUNT };
            ntuple.read(&[ntuple.field(name).unwrap()], range).unwrap().remove(0)
        };
        assert_eq!(
            (read("run_number", COUNT), read("hits", COUNT)),
            (read("run_number", 0), read("hits", 0))
        );

        // A branch too few and two too many, of which one is not read.
        let other = of(&[unknown("q"), four("run.number."), vectors("more")]);
        let differs = |found: Result<()>| match found {
            Err(Error::OtherFields(differ)) => differ,
            other => panic!("{other:?}"),
        };
        let differ = differs(appender.check_tree(&other).map(drop));
        assert_eq!(differ.missing, [("hits".into(), "std::vector<std::int32_t>".into())]);
        let more = [("q".into(), "not read".into()), ("more".into(), "std::vector<std::int32_t>".into())];
        assert_eq!(differ.more, more);
        assert_eq!(*differ, *differs(appender.push_tree(&other, |_| ())));
        appender.leave_out(true);
        assert_eq!(differs(appender.check_tree(&other).map(drop)).more, []);
        appender.fill(vec![Fill { field: "hits".into(), number: None }], &write);
        let left: Vec<String> =
            appender.check_tree(&other).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(left[0], "\"more\" (std::vector<std::int32_t>) is no field of the ntuple");
        assert!(left[1].starts_with("branch \"q\" cannot be read") && left.len() == 2, "{left:?}");
        appender.push_tree(&other, |_| ()).unwrap();
        // A branch that is a field and not read is as none.
        let unread = of(&[four("run.number."), unknown("hits")]);
        assert_eq!(appender.check_tree(&unread).unwrap().len(), 1);
        appender.leave_out(false);
        let found = appender.check_tree(&unread);
        assert!(matches!(found, Err(Error::BranchRefused { branch, .. }) if &*branch == "hits"));
        assert_eq!(appender.commit().unwrap().entry_count, 3 * COUNT);
        assert_eq!(read("run_number", 2 * COUNT), read("run_number", 0));
        assert_eq!(value(&read("hits", 2 * COUNT), 7), value(&read("hits", 0), 4), "it is empty");

        // What is of another type is told before anything is read, and nothing is made of fills alone.
        let wrong = of(&[vectors("run.number."), four("hits")]);
        let others = differs(appender.check_tree(&wrong).map(drop)).others;
        assert_eq!(
            others[0],
            ("run_number".into(), "std::int32_t".into(), "std::vector<std::int32_t>".into())
        );
        assert_eq!(others.len(), 2);
        let run = Fill { field: "run_number".into(), number: None };
        appender.fill(vec![run, Fill { field: "hits".into(), number: None }], &write);
        assert!(differs(appender.check_tree(&of(&[four("else")])).map(drop)).are_all);
    });
}
