//! Trees of ROOT's files as ntuples: their branches are read some entries at a time and written as clusters.

use super::append::Writing;
use super::catalogue::{CreateOptions, Store};
use super::commit::Version;
use super::record::Made;
use super::skim::{Putting, Sink, check, extend, kept, within};
use crate::array::Array;
use crate::error::{Error, Fit, GoOn, Refusal, Result};
use crate::format::Header;
use crate::format::schema::{Known, Schema};
use crate::ntuple::Entries;
use crate::rootfile::RootWriter;
use crate::rootfile::tree::Tree;
use crate::write::{self, Options};
use core::ops::Range;

/// Entries that are read beforehand, since not all trees say how many bytes they have: fewer than those of a basket, mostly.
pub(super) const PROBED_ENTRIES: u64 = 100;

/// Which branches of a tree become fields, and how these are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeOptions {
    /// Branches by their paths or names, or by those of the fields that they become; none for all at the top.
    pub branches: Option<Vec<Box<str>>>,
    /// Whether branches that this program does not read are left out; else one of them is an error.
    pub leaves_out: bool,
    /// How clusters are written.
    pub write: Options,
}

/// What was imported of a tree.
#[derive(Debug)]
pub struct TreeImported {
    /// The version that has it.
    pub version: Version,
    /// Why branches were left out: an [`Error::BranchRefused`] of each.
    pub left_out: Vec<Error>,
    /// Names of branches that are not those of their fields, and these.
    pub renamed: Vec<(Box<str>, Box<str>)>,
}

/// What was skimmed of a tree to a file.
#[derive(Debug)]
pub struct TreeSkimmed {
    /// Clusters that were written.
    pub clusters: u64,
    /// Why branches were left out: an [`Error::BranchRefused`] of each.
    pub left_out: Vec<Error>,
    /// Names of branches that are not those of their fields, and these.
    pub renamed: Vec<(Box<str>, Box<str>)>,
}

/// A field that a branch becomes.
struct Taken {
    branch: usize,
    name: Box<str>,
}

impl Store {
    /// Imports a tree under a name: each branch as a field, whose name is that of the branch without what is behind a bracket or a dot at its
    /// end, and with `_` where it has a dot, or another character that names of fields cannot have. It is read some entries at a time, of about the bytes of a cluster, from where baskets of all
    /// branches begin if there are such places, and is there all at once. `progress` is told of the entries that are in the store.
    ///
    /// # Errors
    /// [`Error::Exists`]; [`Error::BranchRefused`] of a branch that is not read, unless such are left out and others are there;
    /// [`Error::NoField`] of one that the tree has not; [`Error::NoFit`] of two of one name; [`Error::BadName`]; those of reading; those of `progress`;
    /// [`Error::Store`].
    pub fn import_tree<P: GoOn>(
        &self,
        name: &str,
        tree: &Tree,
        how: &TreeOptions,
        options: &CreateOptions,
        progress: impl FnMut(u64) -> P,
    ) -> Result<TreeImported> {
        let all = Entries { first: 0, end: tree.entry_count() };
        self.make_of_tree(name, (tree, &[all]), how, (options, Made::Imported), progress)
    }

    /// As [`import_tree`](Self::import_tree), of the entries of ranges, which are in their order and do not overlap; of the others nothing
    /// is read where there are many. `progress` is told of entries that were looked at.
    ///
    /// # Errors
    /// As [`import_tree`](Self::import_tree); [`Error::NoEntries`] also for a range before the end of the one before it.
    pub fn skim_tree<P: GoOn>(
        &self,
        name: &str,
        of: (&Tree, &[Entries]),
        how: &TreeOptions,
        options: &CreateOptions,
        progress: impl FnMut(u64) -> P,
    ) -> Result<TreeImported> {
        check(of.1, of.0.entry_count())?;
        self.make_of_tree(name, of, how, (options, Made::Skimmed), progress)
    }

    fn make_of_tree<P: GoOn>(
        &self,
        name: &str,
        (tree, ranges): (&Tree, &[Entries]),
        how: &TreeOptions,
        (options, made): (&CreateOptions, Made),
        progress: impl FnMut(u64) -> P,
    ) -> Result<TreeImported> {
        self.check_name(name)?;
        let (taken, left_out) = taken(tree, how)?;
        let header = header(tree, &taken, name)?;
        let of_tree = Of { tree, ranges, taken: &taken, schema: &header.schema, write: &how.write };
        let (of, bytes) = ((&header, header.schema.known()), how.write.cluster_bytes);
        let put = |writing: &mut Writing, class| {
            let mut putting = Putting::new(writing, class);
            of_tree.put_all(&mut putting, progress)?;
            Ok(putting.placed)
        };
        let (_, version) = self.make(of, made, (options, bytes), put)?;
        Ok(TreeImported { version, left_out, renamed: renamed(tree, taken) })
    }
}

/// Writes a skim of a tree to a file of ROOT, which `begin` begins with what the ntuple is, called as the tree: fields, entries and clusters are
/// those that [`Store::skim_tree`] has. `progress` is told of entries that were looked at.
///
/// # Errors
/// As of [`Store::skim_tree`], and of the writer: the file is not there then.
pub fn skim_tree_to<P: GoOn>(
    (tree, ranges): (&Tree, &[Entries]),
    how: &TreeOptions,
    begin: impl FnOnce(Header, Known) -> Result<RootWriter>,
    progress: impl FnMut(u64) -> P,
) -> Result<TreeSkimmed> {
    check(ranges, tree.entry_count())?;
    let (taken, left_out) = taken(tree, how)?;
    let header = header(tree, &taken, tree.own_name())?;
    let (schema, known) = (header.schema.clone(), header.schema.known());
    let mut file = begin(header, known)?;
    let of_tree = Of { tree, ranges, taken: &taken, schema: &schema, write: &how.write };
    let clusters = of_tree.put_all(&mut file, progress)?;
    file.finish()?;
    Ok(TreeSkimmed { clusters, left_out, renamed: renamed(tree, taken) })
}

/// What an ntuple of these branches is.
fn header(tree: &Tree, taken: &[Taken], name: &str) -> Result<Header> {
    let mut schema = Schema::default();
    for field in taken {
        tree.branches()[field.branch].type_of()?.add_to(&mut schema, &field.name);
    }
    let writer = concat!("Dolmen ", env!("CARGO_PKG_VERSION")).into();
    let header = Header { name: name.into(), description: tree.title().into(), writer, schema, checksum: 0 };
    write::check_names(&header)?;
    Ok(header)
}

/// Names of branches that are not those of their fields, and these.
fn renamed(tree: &Tree, taken: Vec<Taken>) -> Vec<(Box<str>, Box<str>)> {
    let named = taken.into_iter().map(|field| (tree.branches()[field.branch].name.clone(), field.name));
    named.filter(|(branch, field)| branch != field).collect()
}

/// A tree, what of it is wanted, and how it is written.
struct Of<'a> {
    tree: &'a Tree,
    ranges: &'a [Entries],
    taken: &'a [Taken],
    schema: &'a Schema,
    write: &'a Options,
}

impl Of<'_> {
    /// Puts all entries that are wanted; in how many clusters.
    fn put_all<P: GoOn>(&self, sink: &mut impl Sink, mut progress: impl FnMut(u64) -> P) -> Result<u64> {
        let Self { tree, ranges, taken, write, .. } = *self;
        let numbers: Vec<usize> = taken.iter().map(|field| field.branch).collect();
        let mut steps = Steps::of(tree, &numbers, write.cluster_bytes);
        let mut clusters = 0;
        let first = Entries { first: 0, end: tree.entry_count().min(PROBED_ENTRIES) };
        steps.read(first, tree.read(&numbers, first)?.iter().map(Array::bytes).sum());
        // Entries that wait until they are a cluster.
        let mut waiting: Vec<Array> = Vec::new();
        while let Some(entries) = steps.next() {
            let wanted = within(ranges, entries);
            if let (Some(one), Some(last)) = (wanted.first(), wanted.last()) {
                let hull = Entries { first: one.first, end: last.end };
                let mut arrays = tree.read(&numbers, hull)?;
                steps.read(hull, arrays.iter().map(Array::bytes).sum());
                let is_whole = wanted[..] == [entries];
                if !is_whole {
                    arrays = arrays.iter().map(|array| kept(array, &places(&wanted, hull.first))).collect();
                }
                if waiting.is_empty() {
                    waiting = arrays;
                } else {
                    waiting.iter_mut().zip(arrays).for_each(|(array, more)| extend(array, more));
                }
                if is_whole || waiting.iter().map(Array::bytes).sum::<u64>() >= write.cluster_bytes {
                    clusters += self.put(sink, &core::mem::take(&mut waiting))?;
                }
            }
            progress(entries.end).go_on()?;
        }
        if !waiting.is_empty() {
            clusters += self.put(sink, &waiting)?;
        }
        Ok(clusters)
    }

    /// Puts entries as one cluster, or several if they are many; how many.
    fn put(&self, sink: &mut impl Sink, arrays: &[Array]) -> Result<u64> {
        let Self { schema, write, .. } = *self;
        let fields: Vec<(&str, &Array)> = self.taken.iter().map(|field| &*field.name).zip(arrays).collect();
        // What has come out a little larger than was thought is a cluster still.
        let cluster_bytes = write.cluster_bytes.saturating_add(write.cluster_bytes / 2);
        let ranges = write::cut(&fields, &Options { cluster_bytes, ..*write })?;
        for range in &ranges {
            sink.put(schema, write::seal(schema, &fields, range.clone(), write)?)?;
        }
        Ok(ranges.len() as u64)
    }
}

/// Where ranges are in what is read from an entry on.
fn places(ranges: &[Entries], first: u64) -> Vec<Range<usize>> {
    let place = |entry: u64| usize::try_from(entry - first).expect("it was read into memory");
    ranges.iter().map(|range| place(range.first)..place(range.end)).collect()
}

/// The branches that become fields, and why others do not.
fn taken(tree: &Tree, how: &TreeOptions) -> Result<(Vec<Taken>, Vec<Error>)> {
    let wanted: Vec<usize> = match &how.branches {
        Some(names) => names.iter().map(|name| tree.branch(name)).collect::<Result<_>>()?,
        None => tree.top_branches().collect(),
    };
    let (mut taken, mut left_out): (Vec<Taken>, Vec<Error>) = (Vec::new(), Vec::new());
    for branch in wanted {
        match tree.branches()[branch].type_of() {
            Ok(_) => {}
            Err(why) if how.leaves_out => {
                left_out.push(why);
                continue;
            }
            Err(why) => return Err(why),
        }
        let name = tree.branches()[branch].as_field();
        if taken.iter().any(|other| other.name == name) {
            return Err(Error::NoFit { field: name, fit: Fit::Twice });
        }
        taken.push(Taken { branch, name });
    }
    if taken.is_empty() {
        let none = || {
            let (branch, class) = (tree.name().into(), "TTree".into());
            Error::BranchRefused { branch, class, why: Refusal::NoBranch }
        };
        return Err(left_out.pop().unwrap_or_else(none));
    }
    Ok((taken, left_out))
}

/// Entries that are read at a time.
pub(super) struct Steps {
    next: u64,
    count: u64,
    step_bytes: u64,
    /// Bytes of all entries, as the tree has them.
    said_bytes: u64,
    /// Entries that were read last, and their bytes.
    last: (u64, u64),
    /// Where baskets of all branches begin.
    starts: Vec<u64>,
}

impl Steps {
    pub(super) fn of(tree: &Tree, branches: &[usize], step_bytes: u64) -> Self {
        let (mut said_bytes, mut starts, mut is_first) = (0_u64, Vec::new(), true);
        let mut waiting = branches.to_vec();
        while let Some(number) = waiting.pop() {
            let branch = &tree.branches()[number];
            waiting.extend(&branch.children);
            said_bytes = said_bytes.saturating_add(branch.said_bytes);
            let own: Vec<u64> = branch.basket_starts().collect();
            // What has branches below has no baskets itself.
            if own.is_empty() {
                continue;
            }
            if is_first {
                starts = own;
            } else {
                starts.retain(|start| own.binary_search(start).is_ok());
            }
            is_first = false;
        }
        // The end is as good as a start.
        starts.push(tree.entry_count());
        Self { next: 0, count: tree.entry_count(), step_bytes, said_bytes, last: (0, 0), starts }
    }

    /// The entries that are read next.
    pub(super) fn next(&mut self) -> Option<Entries> {
        let (first, left) = (self.next, self.count - self.next);
        if left == 0 {
            return None;
        }
        // As many as take the bytes of a step, by what the tree says and by what was read last.
        let within = |(entries, bytes): (u64, u64)| {
            let fit = u128::from(self.step_bytes) * u128::from(entries) / u128::from(bytes.max(1));
            if bytes == 0 { left } else { u64::try_from(fit).unwrap_or(u64::MAX).clamp(1, left) }
        };
        let most = within((self.count, self.said_bytes)).min(within(self.last));
        // Up to where a basket begins, if that is near: the next step does not decompress it once more.
        let (least, fits, last) = (first + most / 2, first + most, first.saturating_add(most + most / 2));
        let at = self.starts.partition_point(|&start| start <= fits);
        let before = at.checked_sub(1).map(|at| self.starts[at]).filter(|&start| start > least);
        let near = before.or_else(|| self.starts.get(at).copied().filter(|&start| start <= last));
        let end = near.unwrap_or(fits).min(self.count);
        self.next = end;
        Some(Entries { first, end })
    }

    /// Takes note of how many bytes some entries had.
    pub(super) fn read(&mut self, entries: Entries, bytes: u64) {
        self.last = (entries.end - entries.first, bytes);
    }
}
