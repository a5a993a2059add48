//! What a user's programs keep for each other: his settings, and records of where things are.
//!
//! Invariants: a record is read and written by its user alone, and no link in its place is followed.

use crate::error::{Error, Op, Result};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::{DirBuilder, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The longest record: a path and some words.
const RECORD_BYTES_MAX: u64 = 64 << 10;

/// The system that the user's settings name: `DOLMEN_SYSTEM`, else `system = "NAME"` at the top of `dolmen/client.toml` below
/// `XDG_CONFIG_HOME` (`~/.config`); `None` if neither does.
///
/// # Errors
/// [`Error::Io`] for a file that is there and cannot be read.
pub fn named_system() -> Result<Option<String>> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(name) = set("DOLMEN_SYSTEM") {
        // What is no text is no name either, and is refused as one.
        return Ok(Some(name.to_string_lossy().into_owned()));
    }
    setting("system")
}

/// Where the user's certificates are: what `DOLMEN_CERTS` says, else `certs = "DIR"` in the same settings; `None` if neither does.
///
/// # Errors
/// As [`named_system`].
pub fn certs_directory() -> Result<Option<PathBuf>> {
    match std::env::var_os("DOLMEN_CERTS").filter(|named| !named.is_empty()) {
        Some(dir) => Ok(Some(PathBuf::from(dir))),
        None => Ok(setting("certs")?.map(PathBuf::from)),
    }
}

/// What the environment says of how objects are reached, by a name that all programs of this kind know (`AWS_…`); `None` if it is not set,
/// empty, or no text.
///
/// # Panics
/// Of any other name.
#[must_use]
pub fn object_variable(name: &str) -> Option<String> {
    assert!(name.starts_with("AWS_"), "{name} is none of those");
    std::env::var_os(name)?.into_string().ok().filter(|value| !value.is_empty())
}

/// What the user's settings say under a key, in quotes.
fn setting(key: &str) -> Result<Option<String>> {
    Ok(settings()?.and_then(|text| value_of(&text, key).map(str::to_owned)))
}

/// What the user's settings say under a key, without quotes.
///
/// # Errors
/// As [`named_system`].
pub(crate) fn plain_setting(key: &str) -> Result<Option<String>> {
    Ok(settings()?.and_then(|text| plain_value_of(&text, key).map(str::to_owned)))
}

/// The text of the user's settings, if there is one.
fn settings() -> Result<Option<String>> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    let Some(path) = base.map(|base| base.join("dolmen").join("client.toml")) else { return Ok(None) };
    match std::fs::read_to_string(&path) {
        Ok(text) => match unread(&text) {
            None => Ok(Some(text)),
            Some(at) => {
                let line = text.lines().nth(at - 1).map_or_else(String::new, str::to_owned);
                let wanted = "system = \"NAME\", certs = \"DIR\" or tenant = NUMBER; correct or remove it";
                Err(Error::Setting { name: format!("line {at} of {}", path.display()), value: line, wanted })
            }
        },
        Err(error) => match failed(Op::Read, &path, &error) {
            error if error.is_not_found() => Ok(None),
            error => Err(error),
        },
    }
}

/// The number of the first line at the top of a file of settings that says nothing known.
fn unread(text: &str) -> Option<usize> {
    let top = text.lines().take_while(|line| !line.trim_start().starts_with('['));
    let is_comment = |text: &str| text.trim_start().is_empty() || text.trim_start().starts_with('#');
    let is_text = |value: &str| {
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let rest = quote.and_then(|quote| value[1..].split_once(quote));
        rest.is_some_and(|(_, behind)| is_comment(behind))
    };
    let is_known = |line: &str| {
        let Some((key, value)) = line.split_once('=') else { return is_comment(line) };
        match key.trim() {
            "system" | "certs" => is_text(value.trim()),
            // Who asks for the number says what is wrong with it.
            "tenant" => true,
            _ => is_comment(line),
        }
    };
    top.zip(1..).find(|(line, _)| !is_known(line)).map(|(_, number)| number)
}

/// The value in quotes of a key at the top of a file of settings.
fn value_of<'t>(text: &'t str, wanted: &str) -> Option<&'t str> {
    let value = behind(text, wanted)?;
    let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
    value[1..].split_once(quote).map(|(name, _)| name)
}

/// The value without quotes of a key at the top of a file of settings.
fn plain_value_of<'t>(text: &'t str, wanted: &str) -> Option<&'t str> {
    Some(behind(text, wanted)?.split('#').next()?.trim_end())
}

/// What is behind a key's equals sign at the top of a file of settings.
fn behind<'t>(text: &'t str, wanted: &str) -> Option<&'t str> {
    let top = text.lines().take_while(|line| !line.trim_start().starts_with('['));
    let mut values = top.filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == wanted).then_some(value)
    });
    Some(values.next()?.trim())
}

/// Makes a directory that is for this user alone, and those above it; one that is there is left as it is.
///
/// # Errors
/// [`Error::Io`].
pub fn create_own_dir(dir: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| failed(Op::Create, dir, &error))
}

/// The text of a record; `None` if there is none.
///
/// # Errors
/// [`Error::Io`] with `EPERM` for one that another user than this one and root has made, or that is a link; those of the device.
pub fn read_record(path: &Path) -> Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match openat(CWD, path, flags, Mode::empty()) {
        Ok(fd) => File::from(fd),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(Op::Open, path, &errno.into())),
    };
    let read = || -> std::io::Result<Option<String>> {
        let stat = file.metadata()?;
        let owners = [0, rustix::process::geteuid().as_raw()];
        if !stat.is_file() || !owners.contains(&stat.uid()) {
            return Err(rustix::io::Errno::PERM.into());
        }
        let mut text = String::new();
        (&file).take(RECORD_BYTES_MAX).read_to_string(&mut text)?;
        Ok(Some(text))
    };
    read().map_err(|error| failed(Op::Read, path, &error))
}

/// Writes a record, for this user alone, in the place of an older one.
///
/// # Errors
/// [`Error::Io`]; then the older one is there.
pub fn write_record(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension(std::process::id().to_string());
    let written = || -> std::io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(CWD, &new, flags, Mode::RUSR | Mode::WUSR)?);
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    };
    written().map_err(|error| failed(Op::Write, path, &error))
}

/// Whether a link may lead this process somewhere: not one that another user than root has made.
#[must_use]
pub fn is_own_link(path: &Path) -> bool {
    match std::fs::symlink_metadata(path) {
        Ok(stat) => !stat.is_symlink() || [0, rustix::process::geteuid().as_raw()].contains(&stat.uid()),
        // Whoever goes there is told what is wrong.
        Err(_gone) => true,
    }
}

fn failed(op: Op, path: &Path, error: &std::io::Error) -> Error {
    Error::from_std(op, &path.display().to_string(), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_settings_names_the_system() {
        let text = "# mine\nsystem = \"file:/x\" # here\n[other]\nsystem = \"no\"\n";
        assert_eq!(value_of(text, "system"), Some("file:/x"));
        assert_eq!(value_of("[a]\nsystem = \"no\"\n", "system"), None);
        assert_eq!(value_of("system = bare\n", "system"), None);
        assert_eq!(value_of("system = \"unended\n", "system"), None);
        assert_eq!(plain_value_of("a = 1\ntenant = 7 # seven\n", "tenant"), Some("7"));
        assert_eq!(plain_value_of("[a]\ntenant = 7\n", "tenant"), None);
    }

    #[test]
    fn what_settings_do_not_know_is_told_by_its_line() {
        let good = "# a = b\n\nsystem = 'lab' # mine\ncerts=\"/x\"\ntenant = 7\n[other]\nany = thing\n";
        assert_eq!(unread(good), None);
        for (text, line) in [
            ("system = \"x", 1),
            ("# one\nsystm = \"x\"\n", 2),
            ("system = bare\n", 1),
            ("system = \"x\" y\n", 1),
            ("tenant = 1\n\nnothing\n", 3),
        ] {
            assert_eq!(unread(text), Some(line), "{text}");
        }
    }

    #[test]
    fn a_record_is_for_its_user_alone_and_no_link_is_followed() {
        let dir = std::env::temp_dir().join(format!("dolmen-record-{}", std::process::id()));
        create_own_dir(&dir.join("deep")).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        let record = dir.join("deep/record");
        assert_eq!(read_record(&record), Ok(None));
        for text in ["first", "second"] {
            write_record(&record, text).unwrap();
            assert_eq!(read_record(&record), Ok(Some(text.to_owned())));
        }
        assert_eq!(mode(&record), 0o600);
        std::os::unix::fs::symlink(&record, dir.join("link")).unwrap();
        assert!(read_record(&dir.join("link")).is_err());
        assert!(is_own_link(&dir.join("link")));
        assert!(is_own_link(&record) && is_own_link(&dir.join("nothing")));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
