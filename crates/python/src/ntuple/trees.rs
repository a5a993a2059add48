//! Trees in files of ROOT, which were before ntuples.

use super::remote::{Said, root_file};
use super::tree;
use crate::error::{Error, Result, Wrong};
use crate::watch::detached;
use dolmen_rntuple::Entries;
use dolmen_rntuple::rootfile::tree::Tree;
use pyo3::prelude::{Bound, PyResult, Python, pyclass, pyfunction, pymethods};
use pyo3::types::PyTuple;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A tree that is open for reading; used by ``dolmen.rntuple``. May be used by any number of threads at once.
#[pyclass(frozen, module = "dolmen", name = "NtupleTree")]
pub(crate) struct NtupleTree {
    tree: Arc<Tree>,
}

/// Names of the trees in a file of ROOT.
#[pyfunction]
#[pyo3(signature = (path, storage=None))]
pub(super) fn trees(py: Python<'_>, path: PathBuf, storage: Option<Said>) -> PyResult<Vec<String>> {
    let names = detached(py, || Ok(root_file(&path, storage)?.trees()))?;
    Ok(names.into_iter().map(Into::into).collect())
}

fn open(path: &Path, name: Option<&str>, storage: Option<Said>) -> Result<Tree> {
    let file = Arc::new(root_file(path, storage)?);
    let names = file.trees();
    let name = match (name, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, []) => return Err(Error::Argument(Wrong::NoTree)),
        (None, _) => return Err(Error::Argument(Wrong::SeveralTrees)),
    };
    Ok(Tree::open(&file, name)?)
}

impl NtupleTree {
    pub(super) fn tree(&self) -> Arc<Tree> {
        Arc::clone(&self.tree)
    }
}

/// A branch as Python has it: its path, its type (empty if it is refused), why it is refused, the branch above, how many are below.
type Branch = (String, String, Option<String>, Option<usize>, usize);

#[pymethods]
impl NtupleTree {
    /// Opens a tree of a file of ROOT; without a name the only one.
    #[new]
    #[pyo3(signature = (path, name=None, storage=None))]
    fn new(py: Python<'_>, path: PathBuf, name: Option<String>, storage: Option<Said>) -> PyResult<Self> {
        let tree = detached(py, || open(&path, name.as_deref(), storage))?;
        Ok(Self { tree: Arc::new(tree) })
    }

    /// Its name, and what it is.
    fn texts(&self) -> (String, String) {
        (self.tree.name().to_owned(), self.tree.title().to_owned())
    }

    /// How many entries there are.
    fn entry_count(&self) -> u64 {
        self.tree.entry_count()
    }

    /// All branches.
    fn branches(&self) -> Vec<Branch> {
        let branches = self.tree.branches().iter().map(|branch| {
            let (of, why) = match branch.type_of() {
                Ok(of) => (of.name(), None),
                Err(why) => (String::new(), Some(why.to_string())),
            };
            (branch.path.to_string(), of, why, branch.parent, branch.children.len())
        });
        branches.collect()
    }

    /// Reads branches, by their numbers, of entries: a tree for each.
    fn read<'py>(
        &self,
        py: Python<'py>,
        branches: Vec<usize>,
        first: u64,
        end: u64,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        if branches.iter().any(|&branch| branch >= self.tree.branches().len()) {
            return Err(Error::Argument(Wrong::Field).into());
        }
        let read = || self.tree.read(&branches, Entries { first, end }).map_err(Error::from);
        detached(py, read)?.into_iter().map(|array| tree::shown(py, array)).collect()
    }
}
