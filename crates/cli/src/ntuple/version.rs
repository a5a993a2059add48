//! Which version of an ntuple is meant, and what there is instead of one that is not there.

use super::TOLD_MAX;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::date;
use clap::Args;
use core::str::FromStr;
use dolmen_rntuple::store::{Store, StoreSource, Stored, When};
use dolmen_rntuple::{AskedBy, Error, Ntuple};

/// A version of an ntuple in a container; the current one if none is told.
#[derive(Args, Clone, Default, Debug)]
pub(crate) struct VersionArg {
    /// The version with this number, of an ntuple in a container
    #[arg(long, value_name = "NUMBER")]
    version: Option<u64>,
    /// The version that this tag keeps
    #[arg(long, value_name = "TAG", conflicts_with = "version")]
    tag: Option<String>,
    /// The last version that was made by this time: the date and time (UTC) that `versions` prints, or seconds since 1970; also with decimals. A
    /// whole second is all of it, up to its end
    #[arg(long, value_name = "TIME", conflicts_with_all = ["version", "tag"])]
    at: Option<At>,
}

/// How a time is told.
const TIMES: &str = "a date and time (UTC) as `dolmen ntuple versions` prints it, '2026-11-27 21:03:56', or seconds since 1970";

/// A time: the last nanosecond of what its last digit says, or of what is nearest to that as a float, since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At {
    end_ns: u64,
}

impl FromStr for At {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parsed(text.trim()).ok_or_else(|| format!("give {TIMES}"))
    }
}

fn parsed(text: &str) -> Option<At> {
    let digits = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    let (whole, decimals) = text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
    let second = match whole.split_once([' ', 'T']) {
        Some((day, time)) => second_of(day, time)?,
        None => digits(whole)?,
    };
    // Nanoseconds of the decimals that there are, and of what may be behind them.
    let (ns, span_ns) = match decimals {
        None => (0, 1_000_000_000),
        Some(decimals) => {
            digits(decimals)?;
            let known = &decimals[..decimals.len().min(9)];
            let span_ns = 10_u64.pow(9 - u32::try_from(known.len()).ok()?);
            (digits(known)? * span_ns, span_ns)
        }
    };
    let second_ns = second.checked_mul(1_000_000_000)?;
    let end_ns = second_ns.checked_add(ns + span_ns - 1)?;
    // Fewer digits may be all that a float of 64 bits needs to be told from its neighbours, as Python prints the times of versions: they stand for
    // all that is near it: nanoseconds become a float first, and seconds then, and each is rounded.
    let is_float = decimals.is_some_and(|decimals| decimals.len() < 9) && !whole.contains([' ', 'T']);
    let float_end_ns = is_float.then(|| text.parse::<f64>().ok()).flatten().map_or(0, |float| {
        let behind = float.fract() + (float.next_up() - float) * 1.1;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to a second, or some of far times"
        )]
        let behind_ns = (behind * 1e9) as u64;
        second_ns.saturating_add(behind_ns)
    });
    Some(At { end_ns: end_ns.max(float_end_ns) })
}

/// The second since 1970 of a date and a time of the day, if there is such.
fn second_of(day: &str, time: &str) -> Option<u64> {
    let numbers = |text: &str, at: char| -> Option<[u64; 3]> {
        let numbers: Option<Vec<u64>> = text.split(at).map(|number| number.parse().ok()).collect();
        numbers?.try_into().ok()
    };
    let ([year, month, of_month], [hour, minute, second]) = (numbers(day, '-')?, numbers(time, ':')?);
    if !(1970..2554).contains(&year) || !(1..=12).contains(&month) || of_month > 31 {
        return None;
    }
    // Years that begin in March, as those of what prints it.
    let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = years * 365 + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + of_month;
    let second = (days.checked_sub(719_469)? * 24 + hour) * 3600 + minute * 60 + second;
    // What is no day or no time of it would be printed as another.
    (date(i64::try_from(second).ok()?) == format!("{day} {time}")).then_some(second)
}

impl VersionArg {
    pub(crate) fn when(&self) -> When<'_> {
        match (self.version, &self.tag, self.at) {
            (Some(version), ..) => When::Version(version),
            (None, Some(tag), _) => When::Tag(tag),
            (None, None, Some(at)) => When::Time(at.end_ns),
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
        Err(Error::NoVersion { by, .. }) => Err(missing(stored, when, by == AskedBy::FreedTime)?),
        done => Ok(done?),
    }
}

/// Why there is no such version.
fn missing(stored: &Stored, when: When<'_>, is_freed: bool) -> Outcome<Failure> {
    let seconds = |time_ns: u64| date(i64::try_from(time_ns / 1_000_000_000).unwrap_or(i64::MAX));
    let numbers = || -> Outcome<Vec<String>> {
        Ok(stored.versions()?.iter().map(|version| version.number.to_string()).collect())
    };
    let (why, hint) = match when {
        When::Tag(tag) => {
            let tags: Vec<String> = stored.tags()?.into_iter().map(|tag| tag.name.into()).collect();
            (format!("there is no tag \"{tag}\""), listed("tag", &tags))
        }
        When::Time(time_ns) if is_freed => {
            let why = format!("the version of {} (UTC) was freed", seconds(time_ns));
            (why, listed("version", &numbers()?))
        }
        When::Time(time_ns) => {
            let oldest = stored.versions()?.into_iter().next();
            let oldest = oldest.map_or_else(String::new, |oldest| {
                format!("; the oldest is {}, made {} (UTC)", oldest.number, seconds(oldest.time_ns))
            });
            let why = format!("there is no version that was made by {} (UTC)", seconds(time_ns));
            (why, format!("--at takes {TIMES}{oldest}"))
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
    use super::{At, listed};
    use crate::output::date;

    #[test]
    fn a_time_is_all_that_begins_with_its_digits() {
        let end_ns = |text: &str| text.parse::<At>().ok().map(|at| at.end_ns);
        let told = 1_795_813_436_000_000_000;
        for text in ["2026-11-27 21:03:56", " 2026-11-27T21:03:56", "1795813436"] {
            assert_eq!(end_ns(text), Some(told + 999_999_999), "{text}");
        }
        for text in ["2026-11-27 21:03:56.25", "1795813436.25", "1795813436.250"] {
            let span_ns = if text.ends_with('0') { 1_000_000 } else { 10_000_000 };
            assert_eq!(end_ns(text), Some(told + 250_000_000 + span_ns - 1), "{text}");
        }
        assert_eq!(end_ns("1795813436.1234567899"), Some(told + 123_456_789));
        // As Python prints the float that is nearest to a time.
        for ns in (0..1_000_000_000).step_by(1_234_567) {
            #[expect(clippy::cast_precision_loss, reason = "so times of versions are shown")]
            let float = (told + ns) as f64 / 1e9;
            let printed = format!("{float:?}");
            let found = end_ns(&printed).unwrap();
            // Few digits stand for all that begins with them, as they do without a float.
            let decimals = printed.split('.').nth(1).map_or(0, str::len);
            let span_ns = 10_u64.pow(9 - u32::try_from(decimals).unwrap());
            assert!((told + ns..told + ns + span_ns + 1_000).contains(&found), "{printed}: {found}");
        }
        for second in (0..1_u64 << 34).step_by(86_400 * 29 + 12_345) {
            let printed = date(second.try_into().unwrap());
            assert_eq!(end_ns(&printed), Some(second * 1_000_000_000 + 999_999_999), "{printed}");
        }
        for wrong in [
            "",
            "soon",
            "-1",
            "+1",
            "1.",
            ".5",
            "1.-2",
            "2026-11-27",
            "2026-13-27 21:03:56",
            "2026-02-30 21:03:56",
            "2026-11-00 21:03:56",
            "2026-11-27 24:03:56",
            "2026-11-27 21:03",
            "2026-11-27 21:3:56",
            "1969-12-31 23:59:59",
            "18446744073",
            "1795813436123456789",
            "99999999999999999999",
        ] {
            assert_eq!(end_ns(wrong), None, "{wrong}");
        }
    }

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
