//! Paths outside that stand for containers: `--path` in place of POOL and CONT.
//!
//! A directory (for files) or a file (for anything else) has an extended attribute that says which container it stands for.

use crate::failure::{Doing, Exit, Failure, Outcome};
use crate::path::shown_outside;
use dolmen_client::Uuid;
use dolmen_dfs::{UNS_XATTR, UNS_XATTR_BYTES_MAX, UnsLink};
use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The layouts that paths are made for.
//= daos:src/include/daos_prop.h DAOS_PROP_CO_LAYOUT_POSIX
const UNKNOWN: u32 = 0;
const POSIX: u32 = 1;

/// What a path stands for, and what of it is inside.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) link: UnsLink,
    /// A path in the container: `/` or below.
    pub(super) inside: PathBuf,
}

/// The container that a path stands for, or the nearest directory above it.
pub(super) fn resolve(path: &Path) -> Outcome<Found> {
    let doing = || format!("find the container of {}", shown_outside(path));
    let whole = path.canonicalize().map_err(|error| Failure::on_file(path, &error)).doing(doing)?;
    for at in whole.ancestors() {
        if let Some(link) = link_at(at).doing(doing)? {
            let rest = whole.strip_prefix(at).unwrap_or(Path::new(""));
            return Ok(Found { link, inside: Path::new("/").join(rest) });
        }
    }
    let failure = Failure::new(Exit::Missing, "neither it nor a directory above it stands for a container");
    Err(failure.hint("give POOL and CONT; what is inside of a container is named by --dfs-path")).doing(doing)
}

fn link_at(path: &Path) -> Outcome<Option<UnsLink>> {
    let mut value = [0; UNS_XATTR_BYTES_MAX];
    match lgetxattr(path, UNS_XATTR, &mut value) {
        Ok(len) => UnsLink::parse(&value[..len]).map(Some).ok_or_else(|| strange(path)),
        Err(Errno::RANGE) => Err(strange(path)),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(Failure::on_file(path, &errno.into())),
    }
}

fn strange(path: &Path) -> Failure {
    let why = format!("what {UNS_XATTR} of {} says is no container", shown_outside(path));
    Failure::new(Exit::Damaged, why).hint("give POOL and CONT")
}

/// Makes a path that stands for a container: a directory for one of files, else a file. It must not be there.
pub(super) fn make(path: &Path, pool: Uuid, cont: Uuid, has_files: bool) -> Outcome<()> {
    let doing = || format!("let {} stand for a container", shown_outside(path));
    let made = if has_files { std::fs::create_dir(path) } else { std::fs::File::create_new(path).map(drop) };
    made.map_err(|error| Failure::on_file(path, &error)).doing(doing)?;
    let link = UnsLink { layout: if has_files { POSIX } else { UNKNOWN }, pool, cont };
    let set = lsetxattr(path, UNS_XATTR, link.to_string().as_bytes(), XattrFlags::CREATE);
    set.map_err(|errno| {
        // Ignored: why it cannot stand for anything says more than why it could not be removed again.
        let _removed = if has_files { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
        match errno {
            Errno::NOTSUP => {
                Failure::new(Exit::Refused, "the file system has no extended attributes of users")
                    .hint("choose a path on another one")
            }
            errno => Failure::on_file(path, &errno.into()),
        }
    })
    .doing(doing)
}

/// Removes a path that stood for a container that is gone.
pub(super) fn remove(path: &Path) -> Outcome<()> {
    let doing = || format!("remove {}, whose container is gone", shown_outside(path));
    let removed = if path.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) };
    removed.map_err(|error| Failure::on_file(path, &error)).doing(doing)
}

/// The words of a command line with pool and container where POOL and CONT stand, if a path names them. What comes behind
/// them is then in its place, whatever the verb takes.
pub(crate) fn named_by_path(mut words: Vec<OsString>) -> Outcome<Vec<OsString>> {
    const GROUPS: [&str; 6] = ["container", "cont", "filesystem", "fs", "object", "obj"];
    // These make the path.
    const MAKERS: [&str; 2] = ["create", "link"];
    if words.get(1).is_none_or(|word| word != "daos") {
        return Ok(words);
    }
    let group = plain(&words, 2).filter(|&at| GROUPS.iter().any(|name| words[at] == *name));
    let Some(verb) = group.and_then(|at| plain(&words, at + 1)) else { return Ok(words) };
    if MAKERS.iter().any(|name| words[verb] == *name) {
        return Ok(words);
    }
    if let Some(path) = path_of(&words[verb + 1..]) {
        let Found { link, .. } = resolve(&path)?;
        words.splice(verb + 1..verb + 1, [link.pool.to_string().into(), link.cont.to_string().into()]);
    }
    Ok(words)
}

/// The first word from `from` on that is no option and no option's value.
fn plain(words: &[OsString], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let word = words.get(at)?.to_str()?;
        match word {
            "-G" | "--sys-name" => at += 2,
            _ if word.starts_with('-') => at += 1,
            _ => return Some(at),
        }
    }
}

/// The value of `--path` or `-p`.
fn path_of(words: &[OsString]) -> Option<PathBuf> {
    let mut words = words.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--path" || word == "-p" {
            return words.next().map(PathBuf::from);
        }
        let joined = word.to_str().and_then(|text| text.strip_prefix("--path=").or_else(|| joined(text)));
        if let Some(path) = joined {
            return Some(PathBuf::from(OsStr::new(path)));
        }
    }
    None
}

/// The value in `-pVALUE` and `-p=VALUE`.
fn joined(word: &str) -> Option<&str> {
    let value = word.strip_prefix("-p")?;
    Some(value.strip_prefix('=').unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_wherever_it_stands() {
        let of = |words: &str| path_of(&words.split(' ').map(OsString::from).collect::<Vec<_>>());
        for words in ["--path /x a", "a --path=/x", "-p /x", "a -p/x b", "-p=/x"] {
            assert_eq!(of(words), Some(PathBuf::from("/x")), "{words}");
        }
        for words in ["a b", "-P u:ann@", "-- --path /x", "--principal p"] {
            assert_eq!(of(words), None, "{words}");
        }
    }

    #[test]
    fn the_verb_is_behind_options_and_their_values() {
        let at = |words: &str, from| plain(&words.split(' ').map(OsString::from).collect::<Vec<_>>(), from);
        assert_eq!(at("dolmen daos --json -G cont cont query", 2), Some(5));
        assert_eq!(at("dolmen daos cont -G lab query", 3), Some(5));
        assert_eq!(at("dolmen daos -G", 2), None);
    }
}
