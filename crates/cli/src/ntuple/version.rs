//! Which version of an ntuple is meant, and what there is instead of one that is not there.

use crate::failure::{Exit, Failure, Outcome};
use crate::output::date;
use clap::Args;
use dolmen_rntuple::store::{Store, StoreSource, Stored, When};
use dolmen_rntuple::{Error, Ntuple};

/// Versions and tags that an error names at most.
const TOLD_MAX: usize = 12;

/// A version of an ntuple in a container; the current one if none is told.
#[derive(Args, Clone, Default, Debug)]
pub(crate) struct VersionArg {
    /// The version with this number, of an ntuple in a container
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
    /// The version that this tag keeps
    #[arg(long, value_name = "TAG", conflicts_with = "version")]
    tag: Option<String>,
    /// The last version that was made by this time, in seconds since 1970 (UTC)
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["version", "tag"])]
    at: Option<u64>,
}

impl VersionArg {
    pub(crate) fn when(&self) -> When<'_> {
        match (self.version, &self.tag, self.at) {
            (Some(version), ..) => When::Version(version),
            (None, Some(tag), _) => When::Tag(tag),
            (None, None, Some(seconds)) => When::Time(seconds.saturating_mul(1_000_000_000)),
            (None, None, None) => When::Now,
        }
    }

    pub(crate) fn is_told(&self) -> bool {
        self.version.is_some() || self.tag.is_some() || self.at.is_some()
    }

    /// Opens that version of the ntuple of this name.
    pub(crate) fn open(&self, store: &Store, name: &str) -> Outcome<Ntuple<StoreSource>> {
        let stored = store.ntuple(name)?;
        of(&stored, self.when(), stored.open(self.when()))
    }
}

/// What was done with a version; if there is none, why, and which there are.
pub(crate) fn of<T>(stored: &Stored, when: When<'_>, done: dolmen_rntuple::Result<T>) -> Outcome<T> {
    match done {
        Err(Error::NoVersion { .. }) => Err(missing(stored, when)?),
        done => Ok(done?),
    }
}

/// Why there is no such version.
fn missing(stored: &Stored, when: When<'_>) -> Outcome<Failure> {
    let seconds = |time_ns: u64| date(i64::try_from(time_ns / 1_000_000_000).unwrap_or(i64::MAX));
    let numbers = || -> Outcome<Vec<String>> {
        Ok(stored.versions()?.iter().map(|version| version.number.to_string()).collect())
    };
    let (why, hint) = match when {
        When::Tag(tag) => {
            let tags: Vec<String> = stored.tags()?.into_iter().map(|tag| tag.name.into()).collect();
            (format!("there is no tag \"{tag}\""), listed("tag", &tags))
        }
        When::Time(time_ns) => {
            let oldest = stored.versions()?.into_iter().next();
            let oldest = oldest.map_or_else(String::new, |oldest| {
                format!("; the oldest is {}, made {} (UTC)", oldest.number, seconds(oldest.time_ns))
            });
            let why = format!("there is no version that was made by {} (UTC)", seconds(time_ns));
            (why, format!("--at takes seconds since 1970{oldest}"))
        }
        When::Version(number) => (format!("there is no version {number}"), listed("version", &numbers()?)),
        When::Now => ("there is no current version".to_owned(), listed("version", &numbers()?)),
    };
    Ok(Failure::new(Exit::Missing, why).hint(hint))
}

/// What there is, the last of many.
fn listed(what: &str, names: &[String]) -> String {
    let last = &names[names.len().saturating_sub(TOLD_MAX)..];
    match (names.len() - last.len(), last) {
        (0, []) => format!("it has no {what}s"),
        (0, [only]) => format!("its only {what} is {only}"),
        (0, _) => format!("its {what}s are {}", last.join(", ")),
        (more, _) => {
            let last = last.join(", ");
            format!(
                "its last {what}s are {last}, with {more} before them; `dolmen ntuple versions` lists all"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::listed;

    #[test]
    fn of_many_versions_the_last_are_told() {
        let numbers: Vec<String> = (1..=20).map(|number| number.to_string()).collect();
        assert_eq!(listed("tag", &[]), "it has no tags");
        assert_eq!(listed("version", &numbers[..1]), "its only version is 1");
        assert_eq!(listed("version", &numbers[..3]), "its versions are 1, 2, 3");
        let told = "its last versions are 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, with 8 before them; \
                    `dolmen ntuple versions` lists all";
        assert_eq!(listed("version", &numbers), told);
    }
}
