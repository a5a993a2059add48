//! Fields by their names, and by patterns of these.

use super::source::{Any, each};
use crate::failure::{Exit, Failure, Outcome};
use dolmen_rntuple::{Ntuple, Source};

impl Any {
    /// Names and numbers of these fields, those that a pattern fits in their order and once; of all at the top that can be read if none are
    /// named.
    pub(super) fn fields<N: AsRef<str>>(&self, names: &[N]) -> Outcome<Vec<(String, usize)>> {
        match self {
            Self::Ntuple(opened) => each!(&**opened, ntuple => {
                let found = chosen(ntuple, names)?;
                Ok(found.into_iter().map(|(name, number)| (name, number as usize)).collect())
            }),
            Self::Tree(tree) => {
                let branches = tree.branches();
                let is_read = |number: &usize| branches[*number].type_of().is_ok();
                let named = |number: usize| (branches[number].path.to_string(), number);
                let tops = || tree.top_branches().filter(is_read).map(named);
                // Those that are a part of another are none of all, but are meant where no other is.
                let fitting = |pattern: &str| {
                    let tops: Vec<_> = tops().filter(|(path, _)| fits(pattern, path)).collect();
                    let all = || (0..branches.len()).filter(is_read).map(named);
                    if tops.is_empty() {
                        all().filter(|(path, _)| fits(pattern, path)).collect()
                    } else {
                        tops
                    }
                };
                let exact = |name: &str| tree.branch(name);
                if names.is_empty() { Ok(tops().collect()) } else { named_or_fitting(names, exact, fitting) }
            }
        }
    }
}

/// Names and numbers of fields of an ntuple, as [`Any::fields`] says.
pub(super) fn chosen<S: Source, N: AsRef<str>>(
    ntuple: &Ntuple<S>,
    names: &[N],
) -> Outcome<Vec<(String, u32)>> {
    let fields = &ntuple.header().schema.fields;
    let named = |number: u32| (fields[number as usize].name.to_string(), number);
    if names.is_empty() {
        return Ok(ntuple.top_fields().map(named).collect());
    }
    // Of a pattern with dots each part fits a name.
    let fitting = |pattern: &str| {
        let mut parts = pattern.split('.');
        let top = parts.next().unwrap_or_default();
        let mut found: Vec<_> = ntuple.top_fields().map(named).filter(|(name, _)| fits(top, name)).collect();
        for part in parts {
            let below = |(path, number): (String, u32)| {
                let children = ntuple.subfields(number).iter().map(|&child| named(child));
                let fitting = children.filter(|(name, _)| fits(part, name));
                fitting.map(|(name, child)| (format!("{path}.{name}"), child)).collect::<Vec<_>>()
            };
            found = found.into_iter().flat_map(below).collect();
        }
        found
    };
    named_or_fitting(names, |name| ntuple.field(name), fitting)
}

/// What has these names, each once, or, of a name that nothing has, what it fits as a pattern.
fn named_or_fitting<N: AsRef<str>, T>(
    names: &[N],
    exact: impl Fn(&str) -> dolmen_rntuple::Result<T>,
    fitting: impl Fn(&str) -> Vec<(String, T)>,
) -> Outcome<Vec<(String, T)>> {
    let mut found: Vec<(String, T)> = Vec::new();
    for name in names.iter().map(AsRef::as_ref) {
        let fitting = match exact(name) {
            Ok(one) => vec![(name.to_owned(), one)],
            Err(_none) if name.contains(['*', '?']) => fitting(name),
            Err(error) => return Err(error.into()),
        };
        if fitting.is_empty() {
            return Err(Failure::new(Exit::Missing, format!("no field fits \"{name}\"")));
        }
        for one in fitting {
            if found.iter().all(|(other, _)| *other != one.0) {
                found.push(one);
            }
        }
    }
    Ok(found)
}

/// Whether a name fits a pattern, in which `*` stands for any characters and `?` for one.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    // Where the last star is, and how far the name was behind what it stood for.
    let (mut at, mut of_name, mut star) = (0, 0, None);
    while of_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, of_name));
                at += 1;
            }
            Some(&one) if one == '?' || one == name[of_name] => {
                at += 1;
                of_name += 1;
            }
            _ => {
                let Some((star_at, behind)) = star else { return false };
                star = Some((star_at, behind + 1));
                (at, of_name) = (star_at + 1, behind + 1);
            }
        }
    }
    pattern[at..].iter().all(|&one| one == '*')
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_any_characters_and_a_question_mark_for_one() {
        let cases = [
            ("Muon_*", "Muon_pt", true),
            ("Muon_*", "Muon_", true),
            ("Muon_*", "nMuon_pt", false),
            ("*_pt", "Muon_pt_pt", true),
            ("*_pt", "Muon_pts", false),
            ("M*n_?t", "Muon_pt", true),
            ("M*n_?t", "Muon_t", false),
            ("*", "", true),
            ("?", "", false),
            ("?", "ä", true),
            ("a[b]", "a[b]", true),
            ("a**b", "ab", true),
        ];
        for (pattern, name, does) in cases {
            assert_eq!(fits(pattern, name), does, "{pattern} {name}");
        }
    }
}
