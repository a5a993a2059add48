//! Reading: which elements of which columns a field of an entry range needs, and arrays from them.
//!
//! Fields are a tree of [`Node`]s. What a level needs is known from the level above: entries at the top, offsets of a
//! collection for its contents. So reading goes in rounds: all that is known to be needed is planned, fetched together
//! ([`pages`]) and decoded where it goes, for all clusters at once. Of a cluster that is wanted as a whole all pages of its fields are
//! known before: where these are next to each other, what later rounds want is fetched with the first.

mod node;
mod pages;

use crate::array::Array;
use crate::error::Result;
use crate::ntuple::{Cluster, Entries, Ntuple};
use crate::source::Source;
use node::{Extent, Node};
use pages::Kept;

/// Clusters that are read together; what is decoded of one is kept until all are.
const CLUSTERS_MAX: usize = 16;

/// Bytes of pages that are read together, unless one cluster has more.
const TOGETHER_BYTES_MAX: u64 = 256 << 20;

/// Reads `fields` of `entries`.
pub(crate) fn read<S: Source>(ntuple: &Ntuple<S>, fields: &[u32], entries: Entries) -> Result<Vec<Array>> {
    let nodes = fields.iter().map(|&field| Node::of(ntuple, field)).collect::<Result<_>>()?;
    read_nodes(ntuple, nodes, entries)
}

/// Reads `fields` of `entries`; of collections how many items each has, of texts how many bytes.
pub(crate) fn read_numbers<S: Source>(
    ntuple: &Ntuple<S>,
    fields: &[u32],
    entries: Entries,
) -> Result<Vec<Array>> {
    let nodes = fields.iter().map(|&field| Node::number_of(ntuple, field)).collect::<Result<_>>()?;
    read_nodes(ntuple, nodes, entries)
}

fn read_nodes<S: Source>(ntuple: &Ntuple<S>, mut nodes: Vec<Node>, entries: Entries) -> Result<Vec<Array>> {
    let clusters = ntuple.clusters(entries)?;
    let count = entries.end - entries.first;
    let is_whole = clusters.iter().map(|cluster| cluster.pages.entry_count).sum::<u64>() == count;
    for node in &mut nodes {
        node.expect(ntuple, &clusters, Some(count), is_whole);
    }
    let mut rest = &clusters[..];
    while !rest.is_empty() {
        let (some, behind) = rest.split_at(together(ntuple, &nodes, rest));
        rest = behind;
        let extents: Vec<_> = some
            .iter()
            .map(|cluster| Extent { range: cluster.part(entries), total: Some(cluster.pages.entry_count) })
            .collect();
        for node in &mut nodes {
            node.extents.clone_from(&extents);
        }
        let (mut kept, mut keep) = (Kept::default(), Vec::new());
        if ntuple.source().has_groups() {
            let is_whole =
                |extent: &Extent| extent.range.start == 0 && extent.total == Some(extent.range.end);
            for (cluster, _) in some.iter().zip(&extents).filter(|(_, extent)| is_whole(extent)) {
                nodes.iter().try_for_each(|node| node.inner_pages(ntuple, cluster, &mut keep))?;
            }
        }
        let mut needed: Vec<&mut Node> = nodes.iter_mut().collect();
        while !needed.is_empty() {
            let mut leaves = node::with_columns(needed)?;
            let mut jobs = Vec::new();
            for leaf in &mut leaves {
                leaf.plan(ntuple, some, &mut jobs)?;
            }
            pages::fetch(ntuple, jobs, core::mem::take(&mut keep), &mut kept)?;
            needed = node::contents(leaves)?;
        }
    }
    Ok(nodes.into_iter().map(Node::finish).collect())
}

/// How many of the clusters are read together: what is fetched of them is in memory at once.
fn together<S: Source>(ntuple: &Ntuple<S>, nodes: &[Node], clusters: &[Cluster<'_>]) -> usize {
    let mut bytes = 0;
    let fits = clusters.iter().take(CLUSTERS_MAX).take_while(|cluster| {
        bytes += nodes.iter().map(|node| node.stored_bytes(ntuple, cluster)).sum::<u64>();
        bytes <= TOGETHER_BYTES_MAX
    });
    fits.count().max(1)
}
