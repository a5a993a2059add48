//! What changed between two states of a container: by path for files, by object and key for everything.

use crate::failure::{Doing, Failure, Outcome, exit_of, failed_line};
use crate::output::{Answer, Table, akey_text, count, dkey_text};
use crate::path::{say, shown};
use core::cell::RefCell;
use dolmen_client::{ChangeKind, Container};
use dolmen_dfs::{Cookie, Dfs, Dir, Error, FileKind, MountOptions, Stat, layout};
use dolmen_types::{Epoch, Oid};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Entries listed at once.
const ENTRIES_AT_ONCE: u32 = 512;

/// What is the same of an entry whose extended attributes may differ: asked by its old and its new path.
type SameXattrs<'a> = &'a dyn Fn(&[u8], &[u8]) -> Outcome<bool>;

/// The entries of one of the two states.
type Entries = BTreeMap<Vec<u8>, Seen>;

/// A path, how it differs, and its old path if it was renamed.
type Difference = (Vec<u8>, Differs, Option<Vec<u8>>);

/// Why an entry could not be compared, by its path.
type Damaged = BTreeMap<Vec<u8>, Failure>;

/// An entry of one of the two states.
#[derive(Clone)]
struct Seen {
    /// The directory that holds it.
    dir: Oid,
    stat: Stat,
}

/// What was written between the two states.
#[derive(Default)]
struct Written {
    objects: BTreeSet<Oid>,
    /// Entries, and companions of linked files, whose extended attributes were: object and dkey.
    xattrs: BTreeSet<(Oid, Vec<u8>)>,
}

impl Written {
    /// Whether extended attributes of an entry were written, or moved with it.
    fn has_xattrs(&self, path: &[u8], seen: &Seen) -> bool {
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        let companion = layout::companion_oid(seen.stat.oid);
        !self.xattrs.is_empty()
            && (self.xattrs.contains(&(seen.dir, name.to_vec()))
                || self.xattrs.contains(&(companion, layout::DKEY_COMPANION.to_vec())))
    }
}

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
    let mut written = Written::default();
    let mut walk = cont.diff(from, to);
    loop {
        let page = walk.next_page()?;
        if page.is_empty() {
            break;
        }
        for change in page {
            written.objects.insert(change.oid);
            if change.akey.starts_with(layout::AKEY_XATTR_PREFIX) {
                written.xattrs.insert((change.oid, change.dkey.to_vec()));
            }
        }
    }
    let (found, damaged) = if written.objects.is_empty() {
        (Vec::new(), Damaged::new())
    } else {
        differences(cont, from, to, &written)?
    };
    let failures: Vec<Failure> = damaged.into_values().collect();
    let (mut text, rows) = listed(&found);
    text.extend(failures.iter().map(failed_line));
    let number = |which| found.iter().filter(|(_, differs, _)| *differs == which).count();
    let counts = [Differs::Added, Differs::Removed, Differs::Modified, Differs::Renamed].map(number);
    let [added, removed, modified, renamed] = counts;
    text.push_str(&format!("{added} added, {removed} removed, {modified} modified, {renamed} renamed"));
    if !failures.is_empty() {
        text.push_str(&format!(", {} NOT COMPARED", failures.len()));
    }
    let json = json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "added": added,
        "removed": removed,
        "modified": modified,
        "renamed": renamed,
        "changes": rows,
        "failed": failures.len(),
        "failures": failures.iter().map(Failure::detail).collect::<Value>(),
    });
    let wrong = format!("{} could not be compared", count(failures.len() as u64, "entry", "entries"));
    Ok(Answer::new(text, json).ending(exit_of(&failures), wrong))
}

/// Differences as lines and for programs.
fn listed(found: &[Difference]) -> (String, Vec<Value>) {
    let mut text = String::new();
    let mut rows = Vec::with_capacity(found.len());
    for (path, differs, old) in found {
        text.push_str(differs.letter());
        text.push(' ');
        if let Some(old) = old {
            text.extend([&shown(old), " -> "]);
        }
        text.push_str(&shown(path));
        text.push('\n');
        let mut row = json!({ "change": differs.word(), "old_path": null });
        say(&mut row, "path", path);
        if let Some(old) = old {
            say(&mut row, "old_path", old);
        }
        rows.push(row);
    }
    (text, rows)
}

/// What differs between the trees of both states, and what could not be compared.
fn differences(
    cont: &Container,
    from: Epoch,
    to: Epoch,
    written: &Written,
) -> Outcome<(Vec<Difference>, Damaged)> {
    let (old, new) = (mount(&cont.at(from))?, mount(&cont.at(to))?);
    let mut damaged = Damaged::new();
    let (mut before, mut after) = (entries(&old, &mut damaged)?, entries(&new, &mut damaged)?);
    if !damaged.is_empty() {
        // What cannot be read in one state would look added or removed.
        for entries in [&mut before, &mut after] {
            entries.retain(|path, _| !is_hidden(path, &damaged));
        }
    }
    let damaged = RefCell::new(damaged);
    let same_xattrs = |before: &[u8], after: &[u8]| {
        match old.xattrs(before).and_then(|old| Ok(old == new.xattrs(after)?)) {
            // They hide nothing else: paths of deep trees are longer than a path may be.
            Err(error) if error.is_damage() || error == Error::NameTooLong => {
                leave_out(&mut damaged.borrow_mut(), after, error);
                Ok(true)
            }
            other => other.doing(|| format!("compare extended attributes of {}", shown(after))),
        }
    };
    let found = compare(&before, &after, written, &same_xattrs)?;
    Ok((found, damaged.into_inner()))
}

fn mount(view: &Container) -> Outcome<Dfs> {
    Ok(Dfs::mount(view, &MountOptions { read_only: true, ..MountOptions::default() })?)
}

/// Notes what could not be compared: in both states once.
fn leave_out(damaged: &mut Damaged, path: &[u8], error: Error) {
    if let Err(failure) = Err::<(), _>(error).doing(|| format!("compare {}", shown(path))) {
        damaged.entry(path.to_vec()).or_insert_with(|| failure.about(path));
    }
}

/// Whether an entry, or a directory above it, could not be read.
fn is_hidden(path: &[u8], damaged: &Damaged) -> bool {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    let mut above = slashes.map(|at| &path[..at.max(1)]);
    damaged.contains_key(path) || above.any(|above| damaged.contains_key(above))
}

/// Every entry of a state that can be read, by path.
fn entries(dfs: &Dfs, damaged: &mut Damaged) -> Outcome<Entries> {
    let mut all = Entries::new();
    let mut pending: Vec<(Vec<u8>, Dir)> = vec![(b"/".to_vec(), dfs.open_dir("/")?)];
    while let Some((path, dir)) = pending.pop() {
        let mut cookie = Cookie::default();
        while !cookie.is_end() {
            let page = match dir.list_plus(&mut cookie, ENTRIES_AT_ONCE) {
                Err(error) if error.is_damage() => {
                    leave_out(damaged, &path, error);
                    break;
                }
                other => other.doing(|| format!("compare {}", shown(&path)))?,
            };
            for entry in page {
                let child = crate::path::join(&path, &entry.name);
                let read = entry.stat.and_then(|stat| match stat.kind {
                    FileKind::Directory => Ok((stat, Some(dir.open_dir(&entry.name)?))),
                    _ => Ok((stat, None)),
                });
                match read {
                    Err(error) if error.is_damage() => leave_out(damaged, &child, error),
                    other => {
                        let (stat, below) = other.doing(|| format!("compare {}", shown(&child)))?;
                        pending.extend(below.map(|below| (child.clone(), below)));
                        all.insert(child, Seen { dir: dir.oid(), stat });
                    }
                }
            }
        }
    }
    Ok(all)
}

/// What differs, by path; a rename names the old path.
fn compare(
    before: &Entries,
    after: &Entries,
    written: &Written,
    same_xattrs: SameXattrs<'_>,
) -> Outcome<Vec<Difference>> {
    let is_same = |old_path: &Vec<u8>, new_path: &Vec<u8>, new: &Seen| {
        let old = &before[old_path];
        let may_differ = written.has_xattrs(old_path, old) || written.has_xattrs(new_path, new);
        Ok::<_, Failure>(
            is_same(&old.stat, &new.stat, &written.objects)
                && (!may_differ || same_xattrs(old_path, new_path)?),
        )
    };
    let renamed = renames(before, after);
    let mut found = Vec::new();
    for (path, seen) in after {
        match (before.contains_key(path), renamed.get(path)) {
            (true, _) if is_same(path, path, seen)? => {}
            (true, _) => found.push((path.clone(), Differs::Modified, None)),
            (false, Some(&old)) => {
                if went_along(&renamed, path).as_ref() != Some(old) {
                    found.push((path.clone(), Differs::Renamed, Some(old.clone())));
                }
                if !is_same(old, path, seen)? {
                    found.push((path.clone(), Differs::Modified, None));
                }
            }
            (false, None) => found.push((path.clone(), Differs::Added, None)),
        }
    }
    let kept: BTreeSet<&Vec<u8>> = renamed.into_values().collect();
    let removed = before.keys().filter(|path| !after.contains_key(*path) && !kept.contains(path));
    found.extend(removed.map(|path| (path.clone(), Differs::Removed, None)));
    found.sort();
    Ok(found)
}

/// The old path of each new one that leads to something that had another path before.
fn renames<'a>(before: &'a Entries, after: &'a Entries) -> BTreeMap<&'a Vec<u8>, &'a Vec<u8>> {
    // Old paths that are gone, by object: a linked file has several.
    let mut gone: BTreeMap<Oid, BTreeSet<&Vec<u8>>> = BTreeMap::new();
    for (path, seen) in before.iter().filter(|(path, _)| !after.contains_key(*path)) {
        gone.entry(seen.stat.oid).or_default().insert(path);
    }
    let new = || after.iter().filter(|(path, _)| !before.contains_key(*path));
    let mut renamed = BTreeMap::new();
    // Directories, which have one path each; then what went along with them; then names renamed by themselves, which
    // take what these have left.
    for (path, seen) in new().filter(|(_, seen)| seen.stat.kind == FileKind::Directory) {
        if let Some(old) = gone.get_mut(&seen.stat.oid).and_then(BTreeSet::pop_first) {
            renamed.insert(path, old);
        }
    }
    for (path, seen) in new().filter(|(_, seen)| seen.stat.kind != FileKind::Directory) {
        if let Some(old) = went_along(&renamed, path)
            && let Some(old) = gone.get_mut(&seen.stat.oid).and_then(|paths| paths.take(&old))
        {
            renamed.insert(path, old);
        }
    }
    for (path, seen) in new() {
        if !renamed.contains_key(path)
            && let Some(old) = gone.get_mut(&seen.stat.oid).and_then(BTreeSet::pop_first)
        {
            renamed.insert(path, old);
        }
    }
    renamed
}

/// The path that an entry had if it has a new one only because the directory that holds it was renamed.
fn went_along(renamed: &BTreeMap<&Vec<u8>, &Vec<u8>>, new: &[u8]) -> Option<Vec<u8>> {
    let (parent, name) = new.split_at(new.iter().rposition(|&byte| byte == b'/')?);
    Some([renamed.get(&parent.to_vec())?, name].concat())
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
        let (oid, dkey, akey) = (
            change.oid.to_string(),
            dkey_text(change.oid, &change.dkey),
            akey_text(change.oid, &change.akey),
        );
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
            atime: time,
            mtime: time,
            ctime: time,
            chunk_bytes: 0,
            class: ObjectClass::S1,
            device: dolmen_dfs::DeviceNo::default(),
        }
    }

    const DIR: Oid = Oid { hi: 0, lo: 99 };

    fn entries_of(list: &[(&str, FileKind, u64)]) -> Entries {
        let seen = |kind, object| Seen { dir: DIR, stat: stat(kind, object) };
        list.iter().map(|(path, kind, object)| (path.as_bytes().to_vec(), seen(*kind, *object))).collect()
    }

    /// What differs, of two entries with other extended attributes those given.
    fn compared(before: &Entries, after: &Entries, written: &Written, other_xattrs: &[&str]) -> Vec<String> {
        let same = |_: &[u8], new: &[u8]| Ok(!other_xattrs.iter().any(|path| path.as_bytes() == new));
        compare(before, after, written, &same)
            .unwrap()
            .into_iter()
            .map(|(path, differs, _)| format!("{} {}", differs.letter(), String::from_utf8(path).unwrap()))
            .collect()
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
        let written = Written { objects: BTreeSet::from([Oid { hi: 0, lo: 3 }]), ..Written::default() };
        let found = compared(&before, &after, &written, &["/b/kept"]);
        assert_eq!(
            found,
            ["R /b", "M /b/written", "D /gone", "A /new"],
            "nothing asks for the attributes of /b/kept"
        );
    }

    #[test]
    fn links_are_renamed_by_themselves_and_with_their_directory() {
        use FileKind::{Directory, File, Symlink};
        let before = entries_of(&[
            ("/a", File, 5),
            ("/d", Directory, 1),
            ("/d/f", File, 2),
            ("/d/h", File, 2),
            ("/d/l", Symlink, 3),
            ("/l", Symlink, 4),
            ("/z", File, 5),
        ]);
        let after = entries_of(&[
            ("/b", File, 2),
            ("/e", Directory, 1),
            ("/e/f", File, 2),
            ("/e/h", File, 2),
            ("/e/l", Symlink, 3),
            ("/m", Symlink, 4),
            ("/y", File, 5),
            ("/z", File, 5),
        ]);
        let found = compared(&before, &after, &Written::default(), &[]);
        assert_eq!(found, ["A /b", "R /e", "R /m", "R /y"]);
    }

    #[test]
    fn extended_attributes_are_compared_where_they_were_written_or_moved() {
        use FileKind::File;
        let before =
            entries_of(&[("/moved", File, 1), ("/set", File, 2), ("/linked", File, 3), ("/same", File, 4)]);
        let after =
            entries_of(&[("/to", File, 1), ("/set", File, 2), ("/linked", File, 3), ("/same", File, 4)]);
        let companion = layout::companion_oid(Oid { hi: 0, lo: 3 });
        let xattrs = BTreeSet::from([
            (DIR, b"moved".to_vec()),
            (DIR, b"to".to_vec()),
            (DIR, b"set".to_vec()),
            (companion, layout::DKEY_COMPANION.to_vec()),
        ]);
        let written = Written { xattrs, ..Written::default() };
        assert_eq!(compared(&before, &after, &written, &[]), ["R /to"]);
        let all = ["/to", "/set", "/linked", "/same"];
        assert_eq!(compared(&before, &after, &written, &all), ["M /linked", "M /set", "M /to", "R /to"]);
    }
}
