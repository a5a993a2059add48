//! A store at an address in one word, `s3://BUCKET/PREFIX`, where the two of `s3://BUCKET PREFIX` have their places.

use std::ffi::OsString;

/// Commands whose first words are POOL and CONT.
const VERBS: [&str; 15] = [
    "import",
    "copy",
    "append",
    "add-column",
    "versions",
    "tag",
    "untag",
    "keep",
    "expire",
    "pack",
    "clone",
    "reshape",
    "scrub",
    "gc",
    "destroy",
];

/// Options with addresses of their own.
const OPTIONS: [&str; 4] = ["--from", "--into", "--to", "--repair-from"];

/// Addresses at most that are tried in two words.
const ADDRESSES_MAX: usize = 4;

/// What a command line can mean if its addresses are those of stores: most of them first, and the first before others. The line as it is
/// comes last.
pub(crate) fn meant(words: Vec<OsString>) -> Vec<Vec<OsString>> {
    let places: Vec<usize> = addresses(&words).into_iter().take(ADDRESSES_MAX).collect();
    let mut choices: Vec<Vec<usize>> = (0..1_usize << places.len())
        .map(|choice| (0..places.len()).filter(|at| choice >> at & 1 == 1).map(|at| places[at]).collect())
        .collect();
    choices.sort_by(|one: &Vec<usize>, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    choices.iter().map(|chosen| in_two(&words, chosen)).collect()
}

/// Where addresses of more than a bucket are, among words that are no options' values.
fn addresses(words: &[OsString]) -> Vec<usize> {
    let Some((_, verb)) = verb(words) else { return Vec::new() };
    let is_option = |word: &&OsString| {
        is(word, |word| OPTIONS.iter().any(|option| word.split('=').next() == Some(option)))
    };
    let end = words.iter().position(|word| is_option(&word)).unwrap_or(words.len());
    (verb + 1..end).filter(|&at| is(&words[at], |word| parts(word).is_some())).collect()
}

/// What is done, if it is one of these commands, and which word says so.
fn verb(words: &[OsString]) -> Option<(&'static str, usize)> {
    let plain = |from: usize| (from..words.len()).find(|&at| !is(&words[at], |word| word.starts_with('-')));
    let at = plain(1).filter(|&at| words[at] == "ntuple").and_then(|at| plain(at + 1))?;
    VERBS.into_iter().find(|verb| words[at] == *verb).map(|verb| (verb, at))
}

fn is(word: &OsString, holds: impl Fn(&str) -> bool) -> bool {
    word.to_str().is_some_and(holds)
}

/// An address of a bucket, and the prefix behind it.
fn parts(word: &str) -> Option<(&str, &str)> {
    let bucket = word.strip_prefix("s3://")?.find('/')? + "s3://".len();
    let prefix = word[bucket + 1..].trim_end_matches('/');
    (!prefix.is_empty()).then_some((&word[..bucket], prefix))
}

fn in_two(words: &[OsString], chosen: &[usize]) -> Vec<OsString> {
    let mut meant = Vec::with_capacity(words.len() + chosen.len());
    for (at, word) in words.iter().enumerate() {
        match word.to_str().and_then(parts).filter(|_| chosen.contains(&at)) {
            Some((bucket, prefix)) => meant.extend([bucket.into(), prefix.into()]),
            None => meant.push(word.clone()),
        }
    }
    meant
}

#[cfg(test)]
mod tests {
    use super::meant;

    fn all(line: &str) -> Vec<String> {
        let words = line.split(' ').map(Into::into).collect();
        let joined = |words: Vec<std::ffi::OsString>| words.join(" ".as_ref()).into_string().unwrap();
        meant(words).into_iter().map(joined).collect()
    }

    #[test]
    fn a_copy_to_an_address_and_a_name_is_to_that_store_under_this_name() {
        assert_eq!(
            all("dolmen ntuple copy s3://a/p e s3://b/r new")[..2],
            ["dolmen ntuple copy s3://a p e s3://b r new", "dolmen ntuple copy s3://a p e s3://b/r new"]
        );
    }

    #[test]
    fn addresses_are_tried_in_two_words_where_these_have_places() {
        assert_eq!(
            all("dolmen ntuple copy s3://a/p/q e s3://b/r/ --json"),
            [
                "dolmen ntuple copy s3://a p/q e s3://b r --json",
                "dolmen ntuple copy s3://a p/q e s3://b/r/ --json",
                "dolmen ntuple copy s3://a/p/q e s3://b r --json",
                "dolmen ntuple copy s3://a/p/q e s3://b/r/ --json",
            ]
        );
        for line in [
            "dolmen ntuple copy s3://a p e s3://b/ r",
            "dolmen ntuple show s3://a/f.root",
            "dolmen ntuple scrub p c e --repair-from s3://a/f.root",
            "dolmen fs copy s3://a/p",
            "dolmen",
        ] {
            assert_eq!(all(line), [line]);
        }
    }
}
