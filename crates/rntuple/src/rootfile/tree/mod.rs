//! Trees of ROOT (TTree), as events were kept before ntuples: their branches as the same arrays that fields of an ntuple are.
//!
//! What a tree is, an object of the file says ([`object`]); the classes of that object and of what is in its branches, the
//! file describes itself ([`describe`]). So no layout of a version is written down here, and those of years ago and of
//! tomorrow are read as the file says; a file without descriptions is refused. A branch has entries in [`basket`]s, whose bytes
//! are turned into arrays by what [`plan`] knows of its leaves and classes. What it does not know is refused by name of branch and class
//! ([`Error::BranchRefused`]), never guessed.
//!
//! //= root:io/doc/TFile/README.md

mod basket;
mod branch;
mod cpp;
mod describe;
mod node;
mod object;
mod plan;
mod read;
mod stream;
mod types;

use super::RootFile;
use crate::array::Array;
use crate::error::{Error, Result, Structure};
use crate::format::Cursor;
use crate::ntuple::Entries;
use describe::Descriptions;
use object::Objects;
use std::sync::Arc;

pub use branch::Branch;
pub use types::{Container, Number, Type};

/// Bytes of the object of a tree that are read at most: trees of ten thousand branches have some 20 MB.
const TREE_BYTES_MAX: u32 = 256 << 20;

/// Classes of trees.
const CLASSES: [&str; 3] = ["TTree", "TNtuple", "TNtupleD"];

impl RootFile {
    /// Names of the trees in it.
    #[must_use]
    pub fn trees(&self) -> Vec<Box<str>> {
        let trees = self.keys().iter().filter(|key| CLASSES.contains(&&*key.class));
        let mut names: Vec<_> = trees.map(|key| key.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// A tree that is open for reading, from any thread.
#[derive(Debug)]
pub struct Tree {
    file: Arc<RootFile>,
    name: Box<str>,
    title: Box<str>,
    entry_count: u64,
    branches: Vec<Branch>,
}

impl Tree {
    /// Opens the tree `name`, which has the names of its directories before it, in its last cycle.
    ///
    /// # Errors
    /// [`Error::NoTree`]; [`Error::Corrupt`]; [`Error::Unsupported`] of what the file does not describe.
    pub fn open(file: &Arc<RootFile>, name: &str) -> Result<Self> {
        let keys = file.keys().iter().filter(|key| CLASSES.contains(&&*key.class) && &*key.name == name);
        let Some(key) = keys.max_by_key(|key| key.cycle) else {
            return Err(Error::NoTree { name: name.into(), others: file.trees() });
        };
        let descriptions = Descriptions::of(file)?;
        let object = file.object(key, TREE_BYTES_MAX)?;
        let mut objects = Objects::new(&descriptions);
        let base = u64::from(key.key_bytes);
        let place = objects.read(&key.class, &mut Cursor::within(Structure::Tree, &object, base))?;
        let entry_count = branch::count(objects.at(place), "fEntries")?;
        let title = objects.at(place).text("fTitle").into();
        let branches = branch::branches(&mut objects, &descriptions, place)?;
        Ok(Self { file: Arc::clone(file), name: name.into(), title, entry_count, branches })
    }

    /// Its name, with those of its directories.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name alone.
    #[must_use]
    pub fn own_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// What it is, for people.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// How many entries it has.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.entry_count
    }

    /// All branches, those above before those below.
    #[must_use]
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Numbers of the branches at the top, in their order.
    pub fn top_branches(&self) -> impl Iterator<Item = usize> {
        self.branches
            .iter()
            .enumerate()
            .filter(|(_, branch)| branch.parent.is_none())
            .map(|(number, _)| number)
    }

    /// The number of a branch, by its path, or else by its name or by that of the field that it becomes, the first that has it; those at the top
    /// before others.
    ///
    /// # Errors
    /// [`Error::NoField`].
    pub fn branch(&self, name: &str) -> Result<usize> {
        let by_path = self.branches.iter().position(|branch| &*branch.path == name);
        let by_name = || self.branches.iter().position(|branch| &*branch.name == name);
        let is_field = |number: &usize| *self.branches[*number].as_field() == *name;
        let by_field = || {
            let below = (0..self.branches.len()).filter(|&number| self.branches[number].parent.is_some());
            self.top_branches().chain(below).find(is_field)
        };
        let none = || Error::no_field(name, self.branches.iter().map(|branch| &*branch.path));
        by_path.or_else(by_name).or_else(by_field).ok_or_else(none)
    }

    /// Reads branches, by their numbers, of entries. A branch that has others below is read as records of these.
    ///
    /// # Errors
    /// [`Error::NoEntries`]; [`Error::BranchRefused`] of what this program does not read; what is wrong with a basket.
    ///
    /// # Panics
    /// If there is no such branch.
    pub fn read(&self, branches: &[usize], entries: Entries) -> Result<Vec<Array>> {
        let Entries { first, end } = entries;
        if first > end || end > self.entry_count {
            return Err(Error::NoEntries { first, end, count: self.entry_count });
        }
        branches.iter().map(|&number| read::branch(self, number, entries)).collect()
    }

    fn file(&self) -> &RootFile {
        &self.file
    }
}
