//! Trees of ROOT's files behind what an ntuple has: of the branches that have become its fields.

use super::append::Appender;
use super::fill::{self, Differ, LeftOut};
use super::import_tree::{PROBED_ENTRIES, Steps};
use crate::array::Array;
use crate::error::{Error, GoOn, Result};
use crate::ntuple::Entries;
use crate::rootfile::tree::Tree;
use crate::write::{self, Options};
use std::collections::BTreeMap;

/// The branches of a tree that are the fields of an ntuple.
#[derive(Default)]
struct Found {
    /// Numbers of fields at the top.
    tops: Vec<u32>,
    /// The branch of each.
    branches: Vec<usize>,
    differ: Differ,
    /// Branches that are not read.
    refused: Vec<Error>,
}

impl Appender {
    /// Whether a tree can be put, of which no entry is read; what is left out of it then.
    ///
    /// # Errors
    /// [`Error::NoFill`]; [`Error::OtherFields`]; [`Error::NoFit`] of a value that its field cannot have; [`Error::BranchRefused`] of one that is
    /// a field of the ntuple and not read, unless such are left out.
    pub fn check_tree(&self, tree: &Tree) -> Result<Vec<LeftOut>> {
        self.check()?;
        let Found { differ, refused, .. } = self.found(tree)?;
        let mut left_out = self.fills.settle(self.schema(), differ)?;
        left_out.extend(refused.into_iter().map(LeftOut::Refused));
        Ok(left_out)
    }

    /// Puts all entries of a tree, of the branches that have become the fields, as an import has it: some entries at a time.
    /// `progress` is told of the entries that are in the store.
    ///
    /// # Errors
    /// As [`check_tree`](Self::check_tree) and [`push`](Self::push); those of reading; those of `progress`.
    pub fn push_tree<P: GoOn>(&mut self, tree: &Tree, mut progress: impl FnMut(u64) -> P) -> Result<()> {
        let Found { tops, branches, differ, .. } = self.found(tree)?;
        let schema = self.schema().clone();
        self.fills.settle(&schema, differ)?;
        let names: Vec<&str> = tops.iter().map(|&top| &*schema.fields[top as usize].name).collect();
        let write = self.fills.options;
        let mut steps = Steps::of(tree, &branches, write.cluster_bytes);
        let first = Entries { first: 0, end: tree.entry_count().min(PROBED_ENTRIES) };
        steps.read(first, tree.read(&branches, first)?.iter().map(Array::bytes).sum());
        // What has come out a little larger than was thought is a cluster still.
        let cluster_bytes = write.cluster_bytes.saturating_add(write.cluster_bytes / 2);
        while let Some(entries) = steps.next() {
            crate::stop::check()?;
            let arrays = tree.read(&branches, entries)?;
            steps.read(entries, arrays.iter().map(Array::bytes).sum());
            let fields: Vec<(&str, &Array)> = names.iter().copied().zip(&arrays).collect();
            for range in write::cut(&fields, &Options { cluster_bytes, ..write })? {
                self.push(&write::seal(&schema, &fields, range, &write)?)?;
            }
            progress(entries.end).go_on()?;
        }
        Ok(())
    }

    /// The branches that are fields: by the names that they get as such, those at the top before others.
    fn found(&self, tree: &Tree) -> Result<Found> {
        let schema = self.schema();
        let mut by_field: BTreeMap<Box<str>, usize> = BTreeMap::new();
        for number in tree.top_branches() {
            by_field.entry(tree.branches()[number].as_field()).or_insert(number);
        }
        let mut found = Found::default();
        let mut is_used = vec![false; tree.branches().len()];
        for top in fill::own_tops(schema) {
            let name = &*schema.fields[top as usize].name;
            let branch = by_field.get(name).copied();
            let Some(branch) = branch.or_else(|| tree.branch(name).ok()) else {
                found.differ.lacking.push(top);
                continue;
            };
            let mut above = Some(branch);
            while let Some(number) = above {
                is_used[number] = true;
                above = tree.branches()[number].parent;
            }
            let of = match tree.branches()[branch].type_of() {
                Ok(of) => of,
                Err(why) if self.fills.leaves_out => {
                    found.refused.push(why);
                    found.differ.lacking.push(top);
                    continue;
                }
                Err(why) => return Err(why),
            };
            // None of its entries: whether they are what the field has.
            let none = tree.read(&[branch], Entries { first: 0, end: 0 })?;
            match write::seal(schema, &[(name, &none[0])], 0..0, &self.fills.options) {
                Ok(_) => {}
                Err(Error::NoFit { .. }) => {
                    let types = (fill::type_of(schema, top), of.name().into());
                    found.differ.others.push((name.into(), types.0, types.1));
                }
                Err(error) => return Err(error),
            }
            found.tops.push(top);
            found.branches.push(branch);
        }
        for number in tree.top_branches().filter(|&number| !is_used[number]) {
            let branch = &tree.branches()[number];
            match branch.type_of() {
                Ok(of) => found.differ.more.push((branch.name.clone(), of.name().into())),
                Err(why) if self.fills.leaves_out => found.refused.push(why),
                Err(_why) => {
                    let of = if branch.class.is_empty() { "not read" } else { &*branch.class };
                    found.differ.more.push((branch.name.clone(), of.into()));
                }
            }
        }
        Ok(found)
    }
}
