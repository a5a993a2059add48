//! What changed between two states of a container: by path for files, by object and key for everything.

use crate::failure::Outcome;
use crate::output::{Answer, Table, readable};
use crate::path::shown;
use dolmen_client::{ChangeKind, Container};
use dolmen_dfs::{Cookie, Dfs, Dir, FileKind, MountOptions, Stat};
use dolmen_types::{Epoch, Oid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Entries listed at once.
const ENTRIES_AT_ONCE: u32 = 512;

/// An entry of one of the two states.
type Entries = BTreeMap<Vec<u8>, Stat>;

/// How a path differs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Differs {
    Added,
    Removed,
    Modified,
    Renamed,
}

impl Differs {
    fn letter(self) -> &'static str {
        match self {
            Self::Added => "A",
            Self::Removed => "D",
            Self::Modified => "M",
            Self::Renamed => "R",
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Modified => "modified",
            Self::Renamed => "renamed",
        }
    }
}

/// Changed paths of a container of files: the trees of both states, and the objects written in between.
pub(crate) fn paths(cont: &Container, from: Epoch, to: Epoch) -> Outcome<Answer> {
    let mut written = BTreeSet::new();
    let mut walk = cont.diff(from, to);
    loop {
        let page = walk.next_page()?;
        if page.is_empty() {
            break;
        }
        written.extend(page.into_iter().map(|change| change.oid));
    }
    let (before, after) =
        if written.is_empty() { <_>::default() } else { (entries(&cont.at(from))?, entries(&cont.at(to))?) };
    let found = compare(&before, &after, &written);
    let mut text = String::new();
    let mut rows = Vec::with_capacity(found.len());
    for (path, differs, old) in &found {
        text.push_str(differs.letter());
        text.push(' ');
        if let Some(old) = old {
            text.extend([&shown(old), " -> "]);
        }
        text.push_str(&shown(path));
        text.push('\n');
        let mut row = json!({ "change": differs.word(), "old_path": null });
        crate::path::say(&mut row, "path", path);
        if let Some(old) = old {
            crate::path::say(&mut row, "old_path", old);
        }
        rows.push(row);
    }
    let count = |which| found.iter().filter(|(_, differs, _)| *differs == which).count();
    let counts = [Differs::Added, Differs::Removed, Differs::Modified, Differs::Renamed].map(count);
    let [added, removed, modified, renamed] = counts;
    text.push_str(&format!("{added} added, {removed} removed, {modified} modified, {renamed} renamed\n"));
    let json = json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "added": added,
        "removed": removed,
        "modified": modified,
        "renamed": renamed,
        "changes": rows,
    });
    Ok(Answer::new(text, json))
}

/// Every entry of a state, by path.
fn entries(view: &Container) -> Outcome<Entries> {
    let dfs = Dfs::mount(view, &MountOptions { read_only: true, ..MountOptions::default() })?;
    let mut all = Entries::new();
    let mut pending: Vec<(Vec<u8>, Dir)> = vec![(b"/".to_vec(), dfs.open_dir("/")?)];
    while let Some((path, dir)) = pending.pop() {
        let mut cookie = Cookie::default();
        while !cookie.is_end() {
            for entry in dir.list_plus(&mut cookie, ENTRIES_AT_ONCE)? {
                let child = crate::path::join(&path, &entry.name);
                if entry.stat.kind == FileKind::Directory {
                    pending.push((child.clone(), dir.open_dir(&entry.name)?));
                }
                all.insert(child, entry.stat);
            }
        }
    }
    Ok(all)
}

/// What differs, by path; a rename names the old path.
fn compare(
    before: &Entries,
    after: &Entries,
    written: &BTreeSet<Oid>,
) -> Vec<(Vec<u8>, Differs, Option<Vec<u8>>)> {
    // By object: the first of its old paths that is gone.
    let mut gone: BTreeMap<Oid, &Vec<u8>> = BTreeMap::new();
    for (path, stat) in before.iter().rev() {
        if !after.contains_key(path) && stat.kind != FileKind::Symlink {
            gone.insert(stat.oid, path);
        }
    }
    let mut found = Vec::new();
    let mut renamed = BTreeMap::new();
    for (path, stat) in after {
        match before.get(path) {
            Some(old) if is_same(old, stat, written) => {}
            Some(_) => found.push((path.clone(), Differs::Modified, None)),
            None => match gone.remove(&stat.oid) {
                Some(old) if stat.kind != FileKind::Symlink => {
                    renamed.insert(path, old);
                    if !went_along(&renamed, path, old) {
                        found.push((path.clone(), Differs::Renamed, Some(old.clone())));
                    }
                    if !is_same(&before[old], stat, written) {
                        found.push((path.clone(), Differs::Modified, None));
                    }
                }
                _ => found.push((path.clone(), Differs::Added, None)),
            },
        }
    }
    let kept: BTreeSet<&Vec<u8>> = renamed.into_values().collect();
    let removed = before.keys().filter(|path| !after.contains_key(*path) && !kept.contains(path));
    found.extend(removed.map(|path| (path.clone(), Differs::Removed, None)));
    found.sort();
    found
}

/// Whether an entry has a new path only because the directory that holds it was renamed.
fn went_along(renamed: &BTreeMap<&Vec<u8>, &Vec<u8>>, new: &[u8], old: &[u8]) -> bool {
    let split = |path: &[u8]| path.iter().rposition(|&byte| byte == b'/').map(|at| (path[..at].to_vec(), at));
    let (Some((new_parent, new_at)), Some((old_parent, old_at))) = (split(new), split(old)) else {
        return false;
    };
    new[new_at..] == old[old_at..] && renamed.get(&new_parent) == Some(&&old_parent)
}

/// Whether an entry is as it was; a directory's time follows its entries, which are reported themselves.
fn is_same(old: &Stat, new: &Stat, written: &BTreeSet<Oid>) -> bool {
    let attributes = |stat: &Stat| (stat.kind, stat.permissions, stat.uid, stat.gid);
    let content = |stat: &Stat| (stat.oid, stat.size_bytes, stat.mtime);
    attributes(old) == attributes(new)
        && (new.kind == FileKind::Directory && old.oid == new.oid
            || content(old) == content(new) && !written.contains(&new.oid))
}

/// Changed values, by object, dkey and akey.
pub(crate) fn objects(cont: &Container, from: Epoch, to: Epoch) -> Outcome<Answer> {
    let mut changes = Vec::new();
    let mut walk = cont.diff(from, to);
    loop {
        let mut page = walk.next_page()?;
        if page.is_empty() {
            break;
        }
        changes.append(&mut page);
    }
    changes.sort_unstable();
    let mut table = Table::new(&["change", "object", "dkey", "akey"]);
    let mut rows: Vec<Value> = Vec::with_capacity(changes.len());
    for change in &changes {
        let (letter, word) = match change.kind {
            ChangeKind::Added => ("A", "added"),
            ChangeKind::Removed => ("D", "removed"),
            ChangeKind::Modified => ("M", "modified"),
        };
        let (oid, dkey, akey) = (change.oid.to_string(), readable(&change.dkey), readable(&change.akey));
        rows.push(json!({ "change": word, "oid": oid, "dkey": dkey, "akey": akey }));
        table.row([letter.to_owned(), oid, dkey, akey]);
    }
    let json = json!({ "from": from.to_string(), "to": to.to_string(), "changes": rows });
    Ok(Answer::new(if changes.is_empty() { "no changes".to_owned() } else { table.text() }, json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dolmen_dfs::Time;
    use dolmen_types::ObjectClass;

    fn stat(kind: FileKind, object: u64) -> Stat {
        let time = Time::from_unix_ns(0);
        Stat {
            oid: Oid { hi: 0, lo: object },
            ino: object,
            kind,
            permissions: 0o644,
            links: 1,
            uid: 0,
            gid: 0,
            size_bytes: 1,
            blocks: 1,
            mtime: time,
            ctime: time,
            chunk_bytes: 0,
            class: ObjectClass::S1,
        }
    }

    fn entries_of(list: &[(&str, FileKind, u64)]) -> Entries {
        list.iter().map(|(path, kind, object)| (path.as_bytes().to_vec(), stat(*kind, *object))).collect()
    }

    #[test]
    fn a_renamed_directory_takes_its_entries_along() {
        use FileKind::{Directory, File};
        let before = entries_of(&[
            ("/a", Directory, 1),
            ("/a/kept", File, 2),
            ("/a/written", File, 3),
            ("/gone", File, 4),
            ("/same", File, 5),
        ]);
        let after = entries_of(&[
            ("/b", Directory, 1),
            ("/b/kept", File, 2),
            ("/b/written", File, 3),
            ("/new", File, 6),
            ("/same", File, 5),
        ]);
        let found: Vec<String> = compare(&before, &after, &BTreeSet::from([Oid { hi: 0, lo: 3 }]))
            .into_iter()
            .map(|(path, differs, _)| format!("{} {}", differs.letter(), String::from_utf8(path).unwrap()))
            .collect();
        assert_eq!(found, ["R /b", "M /b/written", "D /gone", "A /new"]);
    }
}
