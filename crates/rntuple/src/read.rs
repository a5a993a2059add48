//! Reading: which elements of which columns a field of an entry range needs, and arrays from them.
//!
//! Fields are a tree of [`Node`]s. What a level needs is known from the level above: entries at the top, offsets of a
//! collection for its contents. So reading goes in rounds: all that is known to be needed is planned, fetched together
//! ([`pages`]) and decoded where it goes, for all clusters at once.

mod node;
mod pages;

use crate::array::Array;
use crate::error::Result;
use crate::ntuple::{Entries, Ntuple};
use crate::source::Source;
use node::{Extent, Node};

/// Clusters that are read together; what is decoded of one is kept until all are.
const CLUSTERS_MAX: usize = 16;

/// Reads `fields` of `entries`.
pub(crate) fn read<S: Source>(ntuple: &Ntuple<S>, fields: &[u32], entries: Entries) -> Result<Vec<Array>> {
    let mut nodes = Vec::with_capacity(fields.len());
    for &field in fields {
        nodes.push(Node::of(ntuple, field)?);
    }
    let clusters = ntuple.clusters(entries)?;
    for some in clusters.chunks(CLUSTERS_MAX) {
        let extents: Vec<_> = some
            .iter()
            .map(|cluster| {
                let (first, count) = (cluster.pages.first_entry, cluster.pages.entry_count);
                let start = entries.first.max(first) - first;
                let end = entries.end.min(first + count) - first;
                Extent { range: start..end, total: Some(count) }
            })
            .collect();
        for node in &mut nodes {
            node.extents.clone_from(&extents);
        }
        let mut needed: Vec<&mut Node> = nodes.iter_mut().collect();
        while !needed.is_empty() {
            let mut leaves = node::with_columns(needed)?;
            let mut jobs = Vec::new();
            for leaf in &mut leaves {
                leaf.plan(ntuple, some, &mut jobs)?;
            }
            pages::fetch(ntuple, jobs)?;
            needed = node::contents(leaves)?;
        }
    }
    Ok(nodes.into_iter().map(Node::finish).collect())
}
